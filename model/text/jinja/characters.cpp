#include "model/text/jinja/characters.hpp"

#include <utf8proc.h>

#include "model/text/utf8.hpp"

namespace clora::jinja {
namespace {

utf8proc_category_t category_of(std::int32_t c) {
  return c < 0 ? UTF8PROC_CATEGORY_CN : utf8proc_category(c);
}

// The sharp s is the one character of common texts whose upper case has two.
void append_upper(std::int32_t c, std::string_view raw, std::string& out) {
  if (c == 0xDF) {
    out += "SS";
  } else if (c < 0) {
    out += raw;
  } else {
    append_utf8(utf8proc_toupper(c), out);
  }
}

void append_lower(std::int32_t c, std::string_view raw, std::string& out) {
  if (c < 0) {
    out += raw;
  } else {
    append_utf8(utf8proc_tolower(c), out);
  }
}

}  // namespace

bool is_letter(std::int32_t c) {
  const utf8proc_category_t category = category_of(c);
  return category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO;
}

bool is_decimal(std::int32_t c) { return category_of(c) == UTF8PROC_CATEGORY_ND; }

bool is_upper(std::int32_t c) {
  return category_of(c) == UTF8PROC_CATEGORY_LU || category_of(c) == UTF8PROC_CATEGORY_LT;
}

bool is_lower(std::int32_t c) { return category_of(c) == UTF8PROC_CATEGORY_LL; }

Text upper(const Text& text) { return text.mapped(append_upper); }

Text lower(const Text& text) { return text.mapped(append_lower); }

Text titled(const Text& text, bool (*begins)(std::int32_t)) {
  bool first = true;
  return text.mapped([&](std::int32_t c, std::string_view raw, std::string& out) {
    (first ? append_upper : append_lower)(c, raw, out);
    first = begins(c);
  });
}

Text capitalized(const Text& text) {
  return titled(text, [](std::int32_t) { return false; });
}

Text with_case_swapped(const Text& text) {
  return text.mapped([](std::int32_t c, std::string_view raw, std::string& out) {
    (is_upper(c) ? append_lower : append_upper)(c, raw, out);
  });
}

Text escaped(const Text& text) {
  if (text.is_markup()) return text;
  const Text entities = text.mapped([](std::int32_t c, std::string_view raw, std::string& out) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&#34;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += raw;
    }
  });
  return entities.as_markup();
}

}  // namespace clora::jinja
