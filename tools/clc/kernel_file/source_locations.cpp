#include "tools/clc/kernel_file/source_locations.hpp"

#include <sstream>

namespace clora {

SourceLocations::SourceLocations(const std::string& text) {
  std::istringstream lines(text);
  std::string file;
  int number = 0;
  for (std::string line; std::getline(lines, line); ++number) {
    if (line.starts_with("#line ")) {
      const std::size_t quote = line.find('"');
      file = line.substr(quote + 1, line.rfind('"') - quote - 1);
      number = std::stoi(line.substr(6)) - 1;
      lines_.push_back({line, file, 0});
    } else {
      lines_.push_back({line, file, number});
    }
  }
}

SourceLocation SourceLocations::of(TextSpot spot) const {
  if (spot.line < 1 || spot.line > line_count()) return {};
  const Line& line = lines_[static_cast<std::size_t>(spot.line) - 1];
  return {line.file, line.number, spot.column};
}

int SourceLocations::text_line(const std::string& file, int line) const {
  for (std::size_t i = 0; i < lines_.size(); ++i) {
    if (lines_[i].number == line && lines_[i].file == file) return static_cast<int>(i) + 1;
  }
  return 0;
}

const std::string& SourceLocations::line(int number) const {
  static const std::string none;
  if (number < 1 || number > line_count()) return none;
  return lines_[static_cast<std::size_t>(number) - 1].text;
}

}  // namespace clora
