// Literals of the template language: escapes in texts, and the digits of numbers. Pure functions.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace clora::jinja {

// The text between the quotes of a literal without Python's escapes: \n, \t, \\, \', \xHH, \uHHHH,
// octal digits and the rest; an unknown one is kept as it is. Errors: unsupported for a cut-off \x,
// \u or \U.
std::string unescaped(std::string_view text);

struct NumberLiteral {
  std::size_t length = 0;  // in the template
  std::string digits;      // decimal for integers, without underscores
  bool is_real = false;
};
// Reads the number at the beginning of the text, which begins with a digit. may_be_real: false
// after a dot, where the number is an index. Errors: unsupported for integers beyond 64 bits.
NumberLiteral number_literal(std::string_view text, bool may_be_real);

}  // namespace clora::jinja
