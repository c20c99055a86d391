// LineReader: the lines of a text file in bounded memory, whatever the file is: one without line
// breaks and without an end, too. Threads: one at a time.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace clora {

class LineReader {
 public:
  // Errors: not_found where there is no file, or a folder.
  LineReader(const std::filesystem::path& path, std::size_t max_line_bytes);

  // The next line without its line feed; false at the end of the file. Errors: invalid_data, naming
  // the line, for one of more than max_line_bytes; io.
  bool next(std::string& line);

  std::size_t number() const noexcept { return number_; }  // of the last line, from 1

 private:
  bool fill();

  std::filesystem::path path_;
  std::size_t max_line_bytes_;
  std::ifstream file_;
  std::vector<char> buffer_;
  std::size_t begin_ = 0, end_ = 0;  // what of the buffer is not yet read
  std::size_t number_ = 0;
};

}  // namespace clora
