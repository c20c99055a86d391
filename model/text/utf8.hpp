// UTF-8 at byte level: reading one character, and converting any bytes to a valid string.
// Pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace clora {

struct Utf8Char {
  std::int32_t code_point;  // -1: not a valid character
  std::size_t length;       // in bytes; 1 if it is not valid
  bool cut_off;             // invalid only because the text ends inside it
};

// Returns the character at text[offset]. REQUIRES offset < text.size(). Overlong forms, surrogates
// and code points above U+10FFFF are not valid.
Utf8Char read_utf8(std::string_view text, std::size_t offset);

// Unicode's White_Space, and word characters: letters, marks, decimal digits, connectors and
// joiners (\w of Unicode's regular expressions). False for -1.
bool is_white_space(std::int32_t code_point);
bool is_word_character(std::int32_t code_point);

// Returns the text with each byte that is not part of a valid character replaced by U+FFFD.
std::string replace_invalid_utf8(std::string_view text);

// Appends the character. REQUIRES a code point that is not a surrogate.
void append_utf8(std::int32_t code_point, std::string& out);

// Return the text in Unicode's normal form C or D; bytes that are not valid UTF-8 are unchanged.
std::string normalize_nfc(std::string_view text);
std::string normalize_nfd(std::string_view text);

}  // namespace clora
