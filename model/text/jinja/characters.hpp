// Upper and lower case, and the classes of characters that Python's str methods test. False, and no
// change, for -1 (a byte that is not UTF-8). Pure functions.
#pragma once

#include <cstdint>

#include "model/text/jinja/text.hpp"

namespace clora::jinja {

bool is_letter(std::int32_t code_point);
bool is_decimal(std::int32_t code_point);  // digits 0-9 of any script
bool is_upper(std::int32_t code_point);    // also title case
bool is_lower(std::int32_t code_point);

Text upper(const Text& text);
Text lower(const Text& text);
// The first character in upper case, the others in lower case.
Text capitalized(const Text& text);
// Upper case for each character after one for which `begins` holds, and for the first; lower case
// for the others.
Text titled(const Text& text, bool (*begins)(std::int32_t));
Text with_case_swapped(const Text& text);

// Markup with &, <, > and quotes as entities of HTML; markup itself is unchanged.
Text escaped(const Text& text);

}  // namespace clora::jinja
