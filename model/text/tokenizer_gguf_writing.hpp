// Writes a tokenizer as the metadata of a GGUF file (tokenizer.ggml.*): the counterpart of
// tokenizer_spec_from_gguf(). Thread-safe.
#pragma once

#include <cstdint>
#include <string>

#include "clora/model/files/gguf_writing.hpp"
#include "clora/model/text/tokenizer_spec.hpp"

namespace clora {

// Adds the tokens and their kinds, merges or scores, special tokens, and chat templates.
// vocabulary: the rows of the model's embeddings; further tokens of a smaller tokenizer are unused
// ones named [PAD7], as llama.cpp's converter names them. Errors: unsupported, naming the source,
// for a tokenizer that GGUF cannot hold: word pieces, patterns without a name in GGUF, ranked
// merges that are not the order of any scores, or more tokens than the vocabulary.
void write_gguf_tokenizer(GgufMetadata& metadata, const TokenizerSpec& spec,
                          std::int64_t vocabulary);

// Throws Error(unsupported) unless both give the same tokens for texts of many kinds and for every
// special token, the same ends of replies, first tokens and chat template. `written` was read from
// the GGUF file. Returns a warning, or nothing, of what GGUF cannot say of SentencePiece
// vocabularies: that only some pairs of tokens merge (then texts may have other tokens), and that a
// space is put before the first text only.
std::string require_same_tokens(const TokenizerSpec& expected, const TokenizerSpec& written);

}  // namespace clora
