// Reads the tokenizer of a BERT-family folder without tokenizer.json: vocab.txt, one piece a line,
// and the rules and special tokens of tokenizer_config.json. Absent keys mean what they mean in
// transformers' BertTokenizer or MPNetTokenizer. Pure function.
#pragma once

#include <string_view>

#include "clora/model/text/tokenizer_spec.hpp"
#include "clora/runtime/files/json.hpp"

namespace clora {

// special_tokens_map.json, the older place of the special tokens' names, may be added to the
// configuration by the caller. `source` names vocab.txt in messages. Errors: unsupported for
// another class or rule; invalid_file if the vocabulary lacks a special token that frames a text.
TokenizerSpec word_piece_spec_from_vocabulary(std::string_view vocabulary, const JsonKeys& config,
                                              std::string_view source);

}  // namespace clora
