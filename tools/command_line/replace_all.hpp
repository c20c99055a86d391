// Replaces each occurrence of a part of a text; a replacement is not searched again.
#pragma once

#include <string>
#include <string_view>

namespace clora {

inline void replace_all(std::string& text, std::string_view what, std::string_view by) {
  for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += by.size()) {
    text.replace(at, what.size(), by);
  }
}

}  // namespace clora
