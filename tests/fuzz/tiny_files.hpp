// The files of a tiny model, which targets place around the fuzzed file, and seeds derived from
// them.
#pragma once

#include <string>

namespace clora::fuzz {

std::string tiny_tokenizer_json();  // byte-level, 6 tokens
std::string tiny_tokenizer_config_json();

}  // namespace clora::fuzz
