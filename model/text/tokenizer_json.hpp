// Reads the tokenizer of a Hugging Face folder: tokenizer.json, and bos, eos and chat template from
// tokenizer_config.json. BPE models, byte-level or SentencePiece-style:
//   normalizer      none, NFC; Prepend and Replace of the space mark
//   pre_tokenizer   none, ByteLevel, Split (Isolated), Digits, Metaspace, Sequence of these
//   post_processor  TemplateProcessing defines whether bos is prepended
// and WordPiece models:
//   normalizer, pre_tokenizer, decoder   BertNormalizer, BertPreTokenizer, WordPiece
//   post_processor  TemplateProcessing, BertProcessing or RobertaProcessing defines the special
//                   tokens before and after a text
// Everything else that the file requires is refused by name with Error(unsupported); a file that is
// not such JSON with Error(invalid_file). `source` names the file in messages.
#pragma once

#include <string_view>

#include "clora/model/text/tokenizer.hpp"

namespace clora {

TokenizerSpec tokenizer_spec_from_json(std::string_view json, std::string_view config_json = {},
                                       std::string_view source = "tokenizer.json");

Tokenizer tokenizer_from_json(std::string_view json, std::string_view config_json = {},
                              std::string_view source = "tokenizer.json");

}  // namespace clora
