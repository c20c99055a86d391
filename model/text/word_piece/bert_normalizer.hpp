// BERT's text rules before WordPiece: normalisation, and splitting into words. They equal
// BertNormalizer and BertPreTokenizer of Hugging Face's tokenizers. Each byte that is not valid
// UTF-8 counts as U+FFFD, which clean_text removes. Pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "clora/model/text/tokenizer_spec.hpp"

namespace clora {

// Returns the text after those of clean_text, handle_chinese_chars, strip_accents and lowercase
// that the rules set, in this order. The result is valid UTF-8.
std::string bert_normalized(std::string_view text, const WordPieceRules& rules);

// Appends the words of valid UTF-8, which point into `text`: white space separates words, and each
// punctuation character is a word.
void split_bert_words(std::string_view text, std::vector<std::string_view>& words);

}  // namespace clora
