#include "model/data/byte_source.hpp"

#include <cstring>
#include <fstream>
#include <utility>

#include "runtime/fail.hpp"

namespace clora {

namespace {

constexpr std::size_t kBufferBytes = std::size_t{64} << 10U;
constexpr std::string_view kGzip = "\x1f\x8b";
constexpr std::string_view kZstd = "\x28\xb5\x2f\xfd";
constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

// The bytes of a file. The first ones can be seen before they are read.
class FileStage : public ByteStage {
 public:
  explicit FileStage(const std::filesystem::path& path)
      : path_(path.string()), file_(path, std::ios::binary) {
    if (std::filesystem::is_directory(path)) {
      fail(ErrorCode::not_found, "records: '{}' is a folder; name a file in it", path_);
    }
    if (!file_) fail(ErrorCode::not_found, "records: data set '{}' does not exist", path_);
    first_.resize(kZstd.size());
    first_.resize(read_file(first_));
  }

  std::string_view first() const { return first_; }

  std::size_t read(std::span<char> out) override {
    if (first_.empty()) return read_file(out);
    const std::size_t count = std::min(out.size(), first_.size());
    std::memcpy(out.data(), first_.data(), count);
    first_.erase(0, count);
    return count;
  }

 private:
  std::size_t read_file(std::span<char> out) {
    file_.read(out.data(), static_cast<std::streamsize>(out.size()));
    if (file_.bad()) fail(ErrorCode::io, "records: '{}' could not be read", path_);
    return static_cast<std::size_t>(file_.gcount());
  }

  std::string path_;
  std::ifstream file_;
  std::string first_;
};

std::unique_ptr<ByteStage> stage_of(const std::filesystem::path& path) {
  auto file = std::make_unique<FileStage>(path);
  const std::string_view first = file->first();
  if (first.starts_with(kGzip)) return gzip_stage(std::move(file), path.string());
  if (first.starts_with(kZstd)) return zstd_stage(std::move(file), path.string());
  return file;
}

}  // namespace

ByteSource::ByteSource(const std::filesystem::path& path)
    : path_(path.string()), stage_(stage_of(path)), buffer_(kBufferBytes) {
  fill();
  if (std::string_view(buffer_.data(), end_).starts_with(kByteOrderMark)) {
    begin_ = kByteOrderMark.size();
  }
}

// Reads a full buffer, or less at the end of the file.
void ByteSource::fill() {
  begin_ = end_ = 0;
  while (end_ < buffer_.size()) {
    const std::size_t count = stage_->read(std::span(buffer_).subspan(end_));
    if (count == 0) break;
    end_ += count;
  }
}

std::string_view ByteSource::available() {
  if (begin_ == end_) fill();
  return {buffer_.data() + begin_, end_ - begin_};
}

}  // namespace clora
