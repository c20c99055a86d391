// Writes a tokenizer in Hugging Face's form, so that a model that came as GGUF can leave as a
// folder. Pure functions; thread-safe.
#pragma once

#include <string>

#include "model/text/tokenizer_spec.hpp"

namespace clora {

// tokenizer.json: read back, here or by Hugging Face's tokenizers, it gives the same ids. Scores
// become merges, ranked as Hugging Face's own converter does. Throws Error(unsupported) for a
// byte-level tokenizer whose leading space stands before other patterns than GPT-2's.
std::string tokenizer_json_of(const TokenizerSpec& spec);

// tokenizer_config.json: bos, eos, chat template.
std::string tokenizer_config_json_of(const TokenizerSpec& spec);

}  // namespace clora
