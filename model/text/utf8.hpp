// UTF-8 by the byte: reading one character, and making any bytes a valid string. Pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace clora {

struct Utf8Char {
  std::int32_t code_point;  // -1: not a valid character
  std::size_t length;       // bytes that it takes; 1 where it is not valid
  bool cut_off;             // not valid only because the text ends inside it
};

// The character at text[offset]. REQUIRES offset < text.size(). Overlong forms, surrogates and code
// points above U+10FFFF are not valid.
Utf8Char read_utf8(std::string_view text, std::size_t offset);

// Unicode's White_Space, and what a word consists of: letters, marks, decimal digits, connectors
// and joiners (\w of Unicode's regular expressions). False for -1.
bool is_white_space(std::int32_t code_point);
bool is_word_character(std::int32_t code_point);

// The text with each byte that belongs to no valid character replaced by U+FFFD.
std::string replace_invalid_utf8(std::string_view text);

// The text in Unicode's normal form C; bytes that are not valid UTF-8 stay as they are.
std::string normalize_nfc(std::string_view text);

}  // namespace clora
