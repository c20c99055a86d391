// The Modelfile with which 'ollama create' imports a GGUF file.
// Format: https://github.com/ollama/ollama/blob/main/docs/modelfile.md
#pragma once

#include <string>
#include <string_view>

#include "clora/model/text/tokenizer.hpp"

namespace clora {

// gguf_name: of the file in the same folder. FROM and, for each control token that ends a reply, a
// PARAMETER stop. There is no TEMPLATE: ollama takes it from the chat template in the GGUF file, if
// it is one that ollama has in its own template language.
std::string modelfile_of(std::string_view gguf_name, const Tokenizer& tokenizer);

}  // namespace clora
