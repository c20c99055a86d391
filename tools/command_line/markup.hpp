// Text within pages and pictures.
#pragma once

#include <string>
#include <string_view>

namespace clora {

// The text with &, <, > and quotes written as HTML and SVG want them.
std::string html_escaped(std::string_view text);

}  // namespace clora
