// LineReader: reads the lines of a text file in bounded memory, even if the file has no line breaks
// or no end. Threads: one at a time.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace clora {

class LineReader {
 public:
  // Errors: not_found if the file does not exist or is a folder.
  LineReader(const std::filesystem::path& path, std::size_t max_line_bytes);

  // Reads the next line without its line feed; returns false at the end of the file. Errors:
  // invalid_data, naming the line, if it has more than max_line_bytes; io.
  bool next(std::string& line);

  std::size_t number() const noexcept { return number_; }  // of the last line, from 1

 private:
  bool fill();

  std::filesystem::path path_;
  std::size_t max_line_bytes_;
  std::ifstream file_;
  std::vector<char> buffer_;
  std::size_t begin_ = 0, end_ = 0;  // the unread part of the buffer
  std::size_t number_ = 0;
};

}  // namespace clora
