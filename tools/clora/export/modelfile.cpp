#include "tools/clora/export/modelfile.hpp"

#include <fmt/format.h>

namespace clora {

std::string modelfile_of(std::string_view gguf_name, const Tokenizer& tokenizer) {
  std::string text = fmt::format("FROM ./{}\n", gguf_name);
  for (const std::int32_t id : tokenizer.end_of_generation()) {
    const std::string& token = tokenizer.token_text(id);
    // The format has no escape sequences; no such token is known.
    const bool can_be_quoted = token.find_first_of("\"\n") == std::string::npos;
    if (can_be_quoted && !token.empty()) text += fmt::format("PARAMETER stop \"{}\"\n", token);
  }
  return text;
}

}  // namespace clora
