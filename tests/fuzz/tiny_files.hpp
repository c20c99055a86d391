// The files of a tiny model that targets put around the one that they fuzz, and seeds of others.
#pragma once

#include <string>

namespace clora::fuzz {

std::string tiny_tokenizer_json();  // byte-level, 6 tokens
std::string tiny_tokenizer_config_json();

}  // namespace clora::fuzz
