// adapter_config.json: an AdapterConfig in the format of PEFT (Hugging Face).
//
// Every key is supported, or known not to change the product, or rejected by name unless its value
// disables it (docs/decisions/unknown-keys.md). Pure functions except for the file; thread-safe.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "clora/lora/adapter.hpp"

namespace clora {

constexpr const char* kPeftConfigFile = "adapter_config.json";

// Parses `text`; `source` is the file named in errors. Errors: invalid_file; unsupported for a key
// or value that would change what the adapter computes.
AdapterConfig parse_peft_config(std::string_view text, const std::string& source);

// Reads the configuration of a folder. Errors: not_found, io; those above.
AdapterConfig read_peft_config(const std::filesystem::path& folder);

// Returns the text of the file, for PEFT and for parse_peft_config().
std::string peft_config_text(const AdapterConfig& config);

}  // namespace clora
