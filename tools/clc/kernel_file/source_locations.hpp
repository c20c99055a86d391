// Maps the lines of a kernel text with resolved includes to their source files.
#pragma once

#include <string>
#include <vector>

#include "tools/clc/lint/syntax_tree.hpp"

namespace clora {

struct SourceLocation {
  std::string file;  // "gemm.cl", or an included file
  int line = 0, column = 0;
  auto operator<=>(const SourceLocation&) const = default;
};

class SourceLocations {
 public:
  explicit SourceLocations(const std::string& text);

  // Line 0 for an invalid spot.
  SourceLocation of(TextSpot spot) const;
  // The number of a source line in the text; 0 if there is no such line.
  int text_line(const std::string& file, int line) const;
  // A line of the text, counted from 1; empty if there is no such line.
  const std::string& line(int number) const;
  int line_count() const noexcept { return static_cast<int>(lines_.size()); }

 private:
  struct Line {
    std::string text, file;
    int number = 0;
  };
  std::vector<Line> lines_;
};

}  // namespace clora
