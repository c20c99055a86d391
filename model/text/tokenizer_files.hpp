// Tokenizer files: reads a model's tokenizer from GGUF metadata or from a Hugging Face folder, and
// writes it in the latter format.
#pragma once

#include <filesystem>

#include "clora/model/files/gguf.hpp"
#include "clora/model/text/tokenizer.hpp"

namespace clora {

// Reads tokenizer.ggml.*: model gpt2 (byte-level BPE, by the pre-tokeniser's name), llama
// (SentencePiece with scores) or bert (WordPiece). Throws Error(unsupported) for another model or
// pre-tokeniser, Error(invalid_file) if a key is missing or of another type.
TokenizerSpec tokenizer_spec_from_gguf(const GgufFile& file);
Tokenizer tokenizer_from_gguf(const GgufFile& file);

// Loads a .gguf file, or any part of a split one; a folder with tokenizer.json, or else vocab.txt
// (WordPiece), and optionally tokenizer_config.json, special_tokens_map.json (read with vocab.txt
// only), chat_template.jinja, additional_chat_templates/tool_use.jinja and generation_config.json
// (further end-of-generation tokens); or else a folder with one .gguf file or its parts. Throws,
// besides the above, Error(not_found).
Tokenizer load_tokenizer(const std::filesystem::path& model);
// The same before its tables are built.
TokenizerSpec load_tokenizer_spec(const std::filesystem::path& model);

// Writes the tokenizer of `model` to an existing folder in Hugging Face's format: tokenizer files
// of a folder are copied, GGUF metadata is converted to tokenizer.json and tokenizer_config.json.
// Existing files of these names are replaced. Throws, besides the above, Error(io).
void write_tokenizer_files(const std::filesystem::path& model,
                           const std::filesystem::path& out_folder);

}  // namespace clora
