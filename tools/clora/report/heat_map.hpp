// Numbers by row and column as colours, as inline SVG for the pages of html_page.hpp. Pure
// function; thread-safe.
#pragma once

#include <string>
#include <vector>

namespace clora {

// Sizes of something by row and column, as colours.
struct HeatMap {
  std::string title, rows_label, columns_label;
  std::vector<std::string> rows, columns;
  std::vector<std::vector<double>> values;  // [rows][columns]; NaN: none
};
// As a <figure>. Empty if it has no rows or columns.
std::string heat_map(const HeatMap& map);

}  // namespace clora
