// Escaping of text in HTML pages and SVG charts.
#pragma once

#include <string>
#include <string_view>

namespace clora {

// The text with &, <, > and quotes escaped for HTML and SVG.
std::string html_escaped(std::string_view text);

}  // namespace clora
