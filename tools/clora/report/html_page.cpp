#include "tools/clora/report/html_page.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "tools/clora/report/page/page.hpp"
#include "tools/command_line/markup.hpp"

namespace clora {
namespace {

// REQUIRES: a file of that name is in page/.
std::string_view part(std::string_view file) {
  return std::ranges::find(embedded_page_parts(), file, &KernelSource::file)->text;
}

}  // namespace

std::string html_page_head(std::string_view title, std::string_view style) {
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n"
      "<meta name=\"color-scheme\" content=\"light dark\"/>\n<title>{}</title>\n"
      "<style>\n{}{}</style>\n</head>\n<body>\n",
      html_escaped(title), part("base.css"), style);
}

std::string html_chart_page_head(std::string_view title) {
  return html_page_head(title, part("charts.css"));
}

std::string html_chart_page_end() {
  return fmt::format("<script>\n{}</script>\n</body>\n</html>\n", part("charts.js"));
}

std::string html_tile(std::string_view number, std::string_view what) {
  return fmt::format("<div class=\"tile\"><b>{}</b><span>{}</span></div>\n", html_escaped(number),
                     html_escaped(what));
}

std::string html_pairs(const std::vector<std::pair<std::string, std::string>>& pairs) {
  std::string text = "<table class=\"plain\">\n";
  for (const auto& [key, value] : pairs) {
    text +=
        fmt::format("<tr><td>{}</td><td>{}</td></tr>\n", html_escaped(key), html_escaped(value));
  }
  return text + "</table>\n";
}

}  // namespace clora
