#include "tools/command_line/svg.hpp"

#include <fmt/format.h>

#include "tools/command_line/markup.hpp"

namespace clora {
namespace {

std::string start_of(std::string_view name, SvgAttributes attributes) {
  std::string text = fmt::format("<{}", name);
  for (const SvgAttribute& attribute : attributes) {
    text += fmt::format(" {}=\"{}\"", attribute.name, attribute.value);
  }
  return text;
}

}  // namespace

SvgAttribute::SvgAttribute(std::string_view key, std::string_view text)
    : name(key), value(html_escaped(text)) {}

SvgAttribute::SvgAttribute(std::string_view key, double number)
    : name(key), value(fmt::format("{}", number)) {}

std::string svg_tenths(double coordinate) { return fmt::format("{:.1f}", coordinate); }

std::string svg_element(std::string_view name, SvgAttributes attributes) {
  return start_of(name, attributes) + "/>";
}

std::string svg_text(SvgAttributes attributes, std::string_view content) {
  return fmt::format("{}>{}</text>", start_of("text", attributes), html_escaped(content));
}

std::string svg_vertical_line(std::string_view style, double x, double top, double bottom) {
  const std::string at = svg_tenths(x);
  return svg_element("line",
                     {{"class", style}, {"x1", at}, {"x2", at}, {"y1", top}, {"y2", bottom}});
}

std::string svg_horizontal_line(std::string_view style, double left, double right, double y) {
  const std::string at = svg_tenths(y);
  return svg_element("line",
                     {{"class", style}, {"x1", left}, {"x2", right}, {"y1", at}, {"y2", at}});
}

std::string svg_style(std::string_view rules, std::string_view dark_rules) {
  return fmt::format(R"(<style>
  text {{ font: 13px system-ui, sans-serif; fill: #333 }}
  .title {{ font-weight: 600; font-size: 15px }}
  .grid {{ stroke: #888; stroke-opacity: .25 }}
{}  @media (prefers-color-scheme: dark) {{ text {{ fill: #ddd }} {} }}
</style>
)",
                     rules, dark_rules);
}

std::string svg_document(double width, double height, std::string_view title,
                         std::string_view content) {
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" "
      "height=\"{1}\" role=\"img\">\n<title>{2}</title>\n{3}</svg>\n",
      width, height, html_escaped(title), content);
}

std::string svg_inline(double width, double height, std::string_view title,
                       std::string_view content) {
  return fmt::format("<svg viewBox=\"0 0 {} {}\" role=\"img\"><title>{}</title>\n{}</svg>\n", width,
                     height, html_escaped(title), content);
}

}  // namespace clora
