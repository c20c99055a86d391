// LineReader: reads the lines of a text file (byte_source.hpp) in bounded memory, even if the file
// has no line breaks or no end. Threads: one at a time.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

#include "model/data/byte_source.hpp"

namespace clora {

class LineReader {
 public:
  // Errors: those of ByteSource.
  LineReader(const std::filesystem::path& path, std::size_t max_line_bytes)
      : LineReader(ByteSource(path), max_line_bytes) {}
  LineReader(ByteSource source, std::size_t max_line_bytes)
      : source_(std::move(source)), max_line_bytes_(max_line_bytes) {}

  // Reads the next line without its line feed; returns false at the end of the file. Errors:
  // invalid_data, naming the line, if it has more than max_line_bytes; those of ByteSource.
  bool next(std::string& line);

  std::size_t number() const noexcept { return number_; }  // of the last line, from 1

 private:
  ByteSource source_;
  std::size_t max_line_bytes_;
  std::size_t number_ = 0;
};

}  // namespace clora
