// Where the lines of a kernel file's text, includes resolved, come from.
#pragma once

#include <string>
#include <vector>

#include "tools/clc/syntax_tree.hpp"

namespace clora {

struct SourceLocation {
  std::string file;  // "gemm.cl", or what it includes
  int line = 0, column = 0;
  auto operator<=>(const SourceLocation&) const = default;
};

class SourceLocations {
 public:
  explicit SourceLocations(const std::string& text);

  // Line 0 for a spot that is none.
  SourceLocation of(TextSpot spot) const;
  // The number of a line in the text; 0 where there is none such.
  int text_line(const std::string& file, int line) const;
  // A line of the text, from 1 on; empty where there is none such.
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
