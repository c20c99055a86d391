// The frame of the self-contained HTML pages that clora writes: no external links, nothing to
// download, in the reader's light or dark mode. Pure functions; thread-safe.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace clora {

// Up to and with <body>. `style` holds further rules after those of page/base.css.
std::string html_page_head(std::string_view title, std::string_view style);
// The same for a page with charts of line_chart.hpp.
std::string html_chart_page_head(std::string_view title);
// The script that shows values, and the end of a page with charts.
std::string html_chart_page_end();

// A number with what it is, as a card: html_tile("1.28", "held-out loss").
std::string html_tile(std::string_view number, std::string_view what);
// A table of two columns.
std::string html_pairs(const std::vector<std::pair<std::string, std::string>>& pairs);

}  // namespace clora
