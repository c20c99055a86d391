// Reads the tokens that Hugging Face's files describe by an object or by their text. Pure
// functions.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "clora/model/text/tokenizer_spec.hpp"
#include "clora/runtime/files/json.hpp"

namespace clora {

// Returns how an added token is found, by its object in added_tokens or added_tokens_decoder.
AddedTokenRules added_token_rules(const JsonKeys& token);

// Returns the text of a token of tokenizer_config.json, such as "bos_token", which is stored as
// its text or as an object with that text; nullopt if it is absent or null.
std::optional<std::string> config_token_text(const JsonKeys& config, std::string_view key);

// Returns the id of a token. Throws Error(invalid_file), with `what` names it, if it is not one.
std::int32_t required_token(const TokenizerSpec& spec, std::string_view text,
                            std::string_view what);

}  // namespace clora
