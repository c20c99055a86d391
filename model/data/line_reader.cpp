#include "model/data/line_reader.hpp"

#include <cstring>

#include "runtime/fail.hpp"

namespace clora {

LineReader::LineReader(const std::filesystem::path& path, std::size_t max_line_bytes)
    : path_(path),
      max_line_bytes_(max_line_bytes),
      file_(path, std::ios::binary),
      buffer_(1U << 16U) {
  if (!file_ || std::filesystem::is_directory(path)) {
    fail(ErrorCode::not_found, "records: data set '{}' does not exist", path.string());
  }
}

bool LineReader::fill() {
  file_.read(buffer_.data(), static_cast<std::streamsize>(buffer_.size()));
  if (file_.bad()) fail(ErrorCode::io, "records: '{}' could not be read", path_.string());
  begin_ = 0;
  end_ = static_cast<std::size_t>(file_.gcount());
  return end_ > 0;
}

bool LineReader::next(std::string& line) {
  line.clear();
  bool any = false;
  while (begin_ < end_ || fill()) {
    if (!any) ++number_;
    any = true;
    const char* const first = buffer_.data() + begin_;
    const auto* const feed = static_cast<const char*>(std::memchr(first, '\n', end_ - begin_));
    const std::size_t count =
        feed != nullptr ? static_cast<std::size_t>(feed - first) : end_ - begin_;
    if (line.size() + count > max_line_bytes_) {
      fail(ErrorCode::invalid_data, "{}: line {}: a line must have at most {} bytes",
           path_.string(), number_, max_line_bytes_);
    }
    line.append(first, count);
    begin_ += count + (feed != nullptr ? 1 : 0);
    if (feed != nullptr) break;
  }
  return any;
}

}  // namespace clora
