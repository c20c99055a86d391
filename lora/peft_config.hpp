// adapter_config.json: an AdapterConfig in the format of PEFT (Hugging Face).
//
// Every key is supported, or known not to change the product, or rejected by name unless its value
// disables it (docs/decisions/unknown-keys.md). Pure functions except for the file; thread-safe.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "clora/lora/adapter.hpp"
#include "lora/peft_keys.hpp"

namespace clora {

constexpr const char* kPeftConfigFile = "adapter_config.json";

// Parses `text`; `source` is the file named in errors. Errors: invalid_file; unsupported for a key
// or value that would change what the adapter computes.
AdapterConfig parse_peft_config(std::string_view text, const std::string& source,
                                BaseWeights base = BaseWeights::original);

// Reads the configuration of a folder. Errors: not_found, io; those above.
AdapterConfig read_peft_config(const std::filesystem::path& folder,
                               BaseWeights base = BaseWeights::original);

// Whether ensure_weight_tying is on: in a model whose head is the embedding matrix, PEFT then adds
// matrices of the head that are those of the embeddings, and takes the head out of target_modules.
// Errors: not_found, io, invalid_file.
bool ensures_weight_tying(const std::filesystem::path& folder);

// Returns the text of the file, for PEFT and for parse_peft_config().
std::string peft_config_text(const AdapterConfig& config);

}  // namespace clora
