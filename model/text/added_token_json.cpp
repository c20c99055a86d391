#include "model/text/added_token_json.hpp"

#include <algorithm>

#include "runtime/fail.hpp"

namespace clora {

AddedTokenRules added_token_rules(const JsonKeys& token) {
  const auto flag = [&](const char* key) { return token.find_flag(key).value_or(false); };
  return {.normalized = flag("normalized"),
          .single_word = flag("single_word"),
          .lstrip = flag("lstrip"),
          .rstrip = flag("rstrip")};
}

std::optional<std::string> config_token_text(const JsonKeys& config, std::string_view key) {
  const nlohmann::json* token = config.find(key);
  if (token == nullptr || token->is_string()) return config.find_text(key);
  return config.object(key).text("content");
}

std::int32_t required_token(const TokenizerSpec& spec, std::string_view text,
                            std::string_view what) {
  const auto found = std::ranges::find(spec.tokens, text);
  if (found == spec.tokens.end()) {
    fail(ErrorCode::invalid_file, "{}: {} '{}' is not a token", spec.source, what, text);
  }
  return static_cast<std::int32_t>(found - spec.tokens.begin());
}

}  // namespace clora
