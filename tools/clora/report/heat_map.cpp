#include "tools/clora/report/heat_map.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tools/clora/report/series.hpp"
#include "tools/command_line/markup.hpp"
#include "tools/command_line/svg.hpp"

namespace clora {
namespace {

constexpr double kWidth = 400, kLeft = 50, kRight = 10, kTop = 8, kBottom = 24;

double largest_of(const HeatMap& map) {
  double largest = 0;
  for (const auto& row : map.values) {
    for (const double value : row) largest = std::max(largest, std::isfinite(value) ? value : 0);
  }
  return largest > 0 ? largest : 1;
}

// The labels are every n-th, so that they do not overlap.
std::size_t label_distance(std::size_t count, double size, double wanted) {
  const double all = static_cast<double>(count) * wanted;
  return std::max<std::size_t>(1, static_cast<std::size_t>(std::ceil(all / size)));
}

std::string cell(const HeatMap& map, std::size_t row, std::size_t column, double largest,
                 const std::string& place) {
  const double value = map.values[row][column];
  if (!std::isfinite(value)) return {};
  return fmt::format(
      "<rect class=\"heat\" {} fill-opacity=\"{:.3f}\"><title>{} {}, {} {}: {:.4g}</title></rect>",
      place, 0.04 + 0.96 * value / largest, html_escaped(map.rows_label),
      html_escaped(map.rows[row]), html_escaped(map.columns_label),
      html_escaped(map.columns[column]), value);
}

}  // namespace

std::string heat_map(const HeatMap& map) {
  if (map.rows.empty() || map.columns.empty()) return {};
  constexpr double kCells = kWidth - kLeft - kRight;
  const double height = std::clamp(178.0 / static_cast<double>(map.rows.size()), 4.0, 18.0);
  const double width = std::min(kCells / static_cast<double>(map.columns.size()), 48.0);
  const double floor = kTop + height * static_cast<double>(map.rows.size());
  const double largest = largest_of(map);
  const std::size_t nth_row = label_distance(map.rows.size(), floor - kTop, 14);
  std::size_t longest = 1;
  for (const std::string& column : map.columns) longest = std::max(longest, column.size());
  const std::size_t nth_column =
      label_distance(map.columns.size(), width * static_cast<double>(map.columns.size()),
                     7.0 * static_cast<double>(longest));
  std::string text;
  for (std::size_t row = 0; row < map.rows.size(); ++row) {
    const double y = kTop + height * static_cast<double>(row);
    if (row % nth_row == 0) {
      text += svg_text(
          {{"x", kLeft - 6}, {"y", svg_tenths(y + height / 2 + 4)}, {"text-anchor", "end"}},
          map.rows[row]);
    }
    for (std::size_t column = 0; column < map.columns.size(); ++column) {
      const double x = kLeft + width * static_cast<double>(column);
      text += cell(map, row, column, largest,
                   fmt::format("x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\"", x, y,
                               std::max(width - 1, 1.0), std::max(height - 1, 1.0)));
    }
    text += "\n";
  }
  for (std::size_t column = 0; column < map.columns.size(); column += nth_column) {
    text += svg_text({{"x", svg_tenths(kLeft + width * (static_cast<double>(column) + 0.5))},
                      {"y", svg_tenths(floor + 15)},
                      {"text-anchor", "middle"}},
                     map.columns[column]);
  }
  return fmt::format(
      "<figure class=\"map\"><figcaption><strong>{}</strong> <small>{} by {}</small>"
      "<span class=\"legend\"><span><i class=\"heat\"></i>largest <b>{}</b></span></span>"
      "</figcaption>\n{}</figure>\n",
      html_escaped(map.title), html_escaped(map.rows_label), html_escaped(map.columns_label),
      short_number(largest), svg_inline(kWidth, floor + kBottom, map.title, text));
}

}  // namespace clora
