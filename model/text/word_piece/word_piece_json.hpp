// Reads what is particular to WordPiece in Hugging Face's files: the model, normaliser,
// pre-tokeniser and decoder of a tokenizer.json, and BERT's keys of tokenizer_config.json, which
// take precedence, as in transformers. Pure functions.
//
// `truncation` and `padding` of a tokenizer.json belong to its callers in Python; here the caller
// cuts by Tokenizer::encode_at_most, and nothing is padded.
#pragma once

#include "clora/model/text/tokenizer_spec.hpp"
#include "clora/runtime/files/json.hpp"

namespace clora {

// Fills algorithm and word_piece, without piece_count. Errors: unsupported, with the part's path,
// its name and what is supported; invalid_file for a malformed part.
void read_word_piece(const JsonKeys& file, const JsonKeys& config, TokenizerSpec& spec);

// Applies do_lower_case, strip_accents and tokenize_chinese_chars. `strip_accents` is the file's
// own value, if it has one; without any, accents are stripped iff the text is lower-cased.
void apply_bert_config(const JsonKeys& config, std::optional<bool> strip_accents,
                       WordPieceRules& rules);

// Fills bos (cls_token), sep, pad and mask that are not set yet by the configuration's names, or
// else by `names`; tokens that the vocabulary lacks stay unset.
struct EncoderTokenNames {
  const char* cls = nullptr;  // nullptr: none
  const char* sep = nullptr;
  const char* pad = nullptr;
  const char* mask = nullptr;
};
void read_encoder_tokens(const JsonKeys& config, const EncoderTokenNames& names,
                         TokenizerSpec& spec);

}  // namespace clora
