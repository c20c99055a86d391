// Writes a tokenizer in Hugging Face's format, so a model from a GGUF file can be saved as a
// folder. Pure functions; thread-safe.
#pragma once

#include <string>

#include "clora/model/text/tokenizer_spec.hpp"

namespace clora {

// Returns tokenizer.json. Read back, here or by Hugging Face's tokenizers, it gives the same ids.
// Scores become merges, ranked as by Hugging Face's converter. Throws Error(unsupported) for a
// byte-level tokenizer with a leading space and other patterns than GPT-2's.
std::string tokenizer_json_of(const TokenizerSpec& spec);

// Returns tokenizer_config.json: bos, eos, chat template.
std::string tokenizer_config_json_of(const TokenizerSpec& spec);

}  // namespace clora
