// Writes a WordPiece tokenizer in the formats of its family, for tests: vocab.txt with
// tokenizer_config.json, and GGUF metadata as llama.cpp's converter writes it.
#pragma once

#include <string>

#include "clora/model/text/tokenizer_spec.hpp"

namespace clora::test {

// The lines of vocab.txt.
std::string vocabulary_text(const TokenizerSpec& spec);

// tokenizer_config.json: the names of the special tokens, and the rules for texts.
std::string word_piece_config(const TokenizerSpec& spec, const std::string& tokenizer_class);

// The bytes of a GGUF file without tensors. With `old`, as converters wrote it before they stored
// types of tokens and the rules for texts: tokens in brackets count as special.
std::string word_piece_gguf(const TokenizerSpec& spec, bool old = false);

}  // namespace clora::test
