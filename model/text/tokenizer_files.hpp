// A model's tokenizer and its files: read from GGUF metadata or from a Hugging Face folder, and
// written as the latter.
#pragma once

#include <filesystem>

#include "model/files/gguf.hpp"
#include "model/text/tokenizer.hpp"

namespace clora {

// tokenizer.ggml.*: model gpt2 (byte-level BPE, by the pre-tokeniser's name) or llama
// (SentencePiece with scores). Throws Error(unsupported) for another model or pre-tokeniser,
// Error(invalid_file) where a key is missing or of another type.
TokenizerSpec tokenizer_spec_from_gguf(const GgufFile& file);
Tokenizer tokenizer_from_gguf(const GgufFile& file);

// A .gguf file, or a folder with tokenizer.json and, where they are there, tokenizer_config.json,
// chat_template.jinja and generation_config.json (further tokens that end an answer).
// Throws, besides the above, Error(not_found).
Tokenizer load_tokenizer(const std::filesystem::path& model);

// Puts the tokenizer of `model` into a folder that is there, in Hugging Face's form: a folder's own
// files are copied, GGUF metadata becomes tokenizer.json and tokenizer_config.json. Files of these
// names are replaced. Throws, besides the above, Error(io).
void write_tokenizer_files(const std::filesystem::path& model,
                           const std::filesystem::path& out_folder);

}  // namespace clora
