// Elements of SVG charts as text. The attributes of an element are written in the given order, and
// all values and texts are escaped. Pure functions; thread-safe.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

namespace clora {

struct SvgAttribute {
  std::string_view name;
  std::string value;

  SvgAttribute(std::string_view key, std::string_view text);
  SvgAttribute(std::string_view key, const char* text)
      : SvgAttribute(key, std::string_view(text)) {}
  SvgAttribute(std::string_view key, double number);  // in its shortest decimal form
};
using SvgAttributes = std::initializer_list<SvgAttribute>;

// A coordinate that follows from a value, to a tenth of a unit: "12.0".
std::string svg_tenths(double coordinate);

// <name attributes/>
std::string svg_element(std::string_view name, SvgAttributes attributes);
// <text attributes>content</text>
std::string svg_text(SvgAttributes attributes, std::string_view content);
// Lines of a grid and marks of an axis. The position of the line is in tenths of a unit.
std::string svg_vertical_line(std::string_view style, double x, double top, double bottom);
std::string svg_horizontal_line(std::string_view style, double left, double right, double y);

// The style sheet of a chart, in colours with enough contrast on white and on near-black: text,
// .title and .grid, then `rules`, one on each line. `dark_rules` hold on dark pages.
std::string svg_style(std::string_view rules, std::string_view dark_rules);

// A complete document with a title. `content` is the text of elements.
std::string svg_document(double width, double height, std::string_view title,
                         std::string_view content);
// The same as an element of an HTML page, which defines its size and style.
std::string svg_inline(double width, double height, std::string_view title,
                       std::string_view content);

}  // namespace clora
