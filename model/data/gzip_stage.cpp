// Decompression of gzip (RFC 1952) with zlib.
#include <zlib.h>

#include <utility>
#include <vector>

#include "model/data/byte_source.hpp"
#include "runtime/fail.hpp"

namespace clora {

namespace {

constexpr int kGzipOnly = 16;  // added to the window's bits, says zlib's manual
constexpr std::size_t kInputBytes = std::size_t{64} << 10U;

class GzipStage : public ByteStage {
 public:
  GzipStage(std::unique_ptr<ByteStage> input, std::string path)
      : input_(std::move(input)), path_(std::move(path)), buffer_(kInputBytes) {
    if (inflateInit2(&stream_, MAX_WBITS + kGzipOnly) != Z_OK) {
      fail(ErrorCode::out_of_memory, "{}: no memory to decompress it", path_);
    }
  }
  ~GzipStage() override { inflateEnd(&stream_); }
  GzipStage(const GzipStage&) = delete;
  GzipStage& operator=(const GzipStage&) = delete;

  std::size_t read(std::span<char> out) override {
    stream_.next_out = reinterpret_cast<Bytef*>(out.data());
    stream_.avail_out = static_cast<uInt>(std::min<std::size_t>(out.size(), kInputBytes));
    const uInt wanted = stream_.avail_out;
    while (stream_.avail_out == wanted && refill()) decompress();
    return wanted - stream_.avail_out;
  }

 private:
  // Returns whether there is input left.
  bool refill() {
    if (stream_.avail_in > 0) return true;
    stream_.next_in = reinterpret_cast<Bytef*>(buffer_.data());
    stream_.avail_in = static_cast<uInt>(input_->read(buffer_));
    if (stream_.avail_in == 0 && inside_) {
      fail(ErrorCode::invalid_data, "{}: the compressed file is incomplete; copy it again", path_);
    }
    return stream_.avail_in > 0;
  }

  void decompress() {
    if (!inside_) inflateReset(&stream_);  // the next of concatenated files
    inside_ = true;
    const int status = inflate(&stream_, Z_NO_FLUSH);
    if (status == Z_STREAM_END) {
      inside_ = false;
    } else if (status != Z_OK && status != Z_BUF_ERROR) {
      fail(ErrorCode::invalid_data, "{}: the compressed data is damaged: {}", path_,
           stream_.msg == nullptr ? "zlib's reason is unknown" : stream_.msg);
    }
  }

  std::unique_ptr<ByteStage> input_;
  std::string path_;
  std::vector<char> buffer_;
  z_stream stream_ = {};
  bool inside_ = false;  // of a compressed file
};

}  // namespace

std::unique_ptr<ByteStage> gzip_stage(std::unique_ptr<ByteStage> input, std::string path) {
  return std::make_unique<GzipStage>(std::move(input), std::move(path));
}

}  // namespace clora
