// The classes of characters that BERT's normalisation and word splitting distinguish, as Hugging
// Face's tokenizers defines them: its categories are those of Unicode 8, its lower case is that of
// a current Unicode. Pure functions of valid code points (docs/decisions/wordpiece.md).
#pragma once

#include <cstdint>
#include <string>

namespace clora {

// Removed by clean_text: control and format characters, private use, U+0000 and U+FFFD; not
// horizontal tab, line feed and carriage return, which are white space.
bool is_bert_control(std::int32_t code_point);

// CJK ideographs, which are words of their own; not kana and hangul.
bool is_bert_ideograph(std::int32_t code_point);

// Nonspacing marks, removed by strip_accents.
bool is_bert_accent(std::int32_t code_point);

// A word of its own: punctuation, and every ASCII character that is neither letter, digit, space
// nor control character ($, +, <, ...).
bool is_bert_punctuation(std::int32_t code_point);

// Appends the lower case of the character by itself: a final sigma is not distinguished.
void append_bert_lowercase(std::int32_t code_point, std::string& out);

}  // namespace clora
