// Decompression of zstd (RFC 8878) with libzstd.
#include <zstd.h>

#include <utility>
#include <vector>

#include "model/data/byte_source.hpp"
#include "runtime/fail.hpp"

namespace clora {

namespace {

class ZstdStage : public ByteStage {
 public:
  ZstdStage(std::unique_ptr<ByteStage> input, std::string path)
      : input_(std::move(input)),
        path_(std::move(path)),
        stream_(ZSTD_createDStream()),
        buffer_(ZSTD_DStreamInSize()) {
    if (stream_ == nullptr) {
      fail(ErrorCode::out_of_memory, "{}: no memory to decompress it", path_);
    }
  }
  ~ZstdStage() override { ZSTD_freeDStream(stream_); }
  ZstdStage(const ZstdStage&) = delete;
  ZstdStage& operator=(const ZstdStage&) = delete;

  // The decompressor may hold output when the input is used up, so it is called until it gives
  // nothing more.
  std::size_t read(std::span<char> out) override {
    ZSTD_outBuffer output{out.data(), out.size(), 0};
    while (output.pos == 0) {
      if (in_.pos == in_.size && !refill() && !may_hold_output_) break;
      const std::size_t left = ZSTD_decompressStream(stream_, &output, &in_);
      if (ZSTD_isError(left) != 0) {
        fail(ErrorCode::invalid_data, "{}: the compressed data cannot be read: {}", path_,
             ZSTD_getErrorName(left));
      }
      inside_ = left != 0;
      may_hold_output_ = inside_ && output.pos == output.size;
    }
    return output.pos;
  }

 private:
  bool refill() {
    in_ = {buffer_.data(), input_->read(buffer_), 0};
    if (in_.size == 0 && inside_ && !may_hold_output_) {
      fail(ErrorCode::invalid_data, "{}: the compressed file is incomplete; copy it again", path_);
    }
    return in_.size > 0;
  }

  std::unique_ptr<ByteStage> input_;
  std::string path_;
  ZSTD_DStream* stream_;
  std::vector<char> buffer_;
  ZSTD_inBuffer in_ = {};
  bool inside_ = false;  // of a frame
  bool may_hold_output_ = false;
};

}  // namespace

std::unique_ptr<ByteStage> zstd_stage(std::unique_ptr<ByteStage> input, std::string path) {
  return std::make_unique<ZstdStage>(std::move(input), std::move(path));
}

}  // namespace clora
