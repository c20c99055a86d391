#include "clora/model/text/tokenizer_spec.hpp"

#include "runtime/fail.hpp"

namespace clora {

TokenMerge merge_from_text(std::string_view text, std::string_view source) {
  const std::size_t space = text.find(' ', 1);  // a part is never empty
  if (space == std::string_view::npos || space + 1 == text.size()) {
    fail(ErrorCode::invalid_file, "{}: a merge must be two tokens separated by a space, got '{}'",
         source, text);
  }
  return {std::string(text.substr(0, space)), std::string(text.substr(space + 1))};
}

void mark_special_tokens(TokenizerSpec& spec) {
  if (spec.types.empty()) spec.types.assign(spec.tokens.size(), TokenType::normal);
  for (const auto& id : {spec.bos, spec.sep, spec.pad, spec.mask, spec.unknown}) {
    if (id && static_cast<std::size_t>(*id) < spec.types.size()) {
      spec.types[static_cast<std::size_t>(*id)] = TokenType::control;
    }
  }
}

}  // namespace clora
