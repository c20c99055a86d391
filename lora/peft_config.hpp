// adapter_config.json: an AdapterConfig as PEFT (Hugging Face) writes it.
//
// Every key is understood, or known not to change the product, or refused by name unless it has the
// value that switches it off. docs/decisions/unknown-keys.md says which and why. Pure functions but
// for the file; thread-safe.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "lora/adapter.hpp"

namespace clora {

constexpr const char* kPeftConfigFile = "adapter_config.json";

// The configuration in `text`; `source` names the file in errors. Errors: invalid_file;
// unsupported for a key, or a value of one, that would change what the adapter computes.
AdapterConfig parse_peft_config(std::string_view text, const std::string& source);

// That of a folder. Errors: not_found, io; those above.
AdapterConfig read_peft_config(const std::filesystem::path& folder);

// The text of the file, for PEFT and for parse_peft_config().
std::string peft_config_text(const AdapterConfig& config);

}  // namespace clora
