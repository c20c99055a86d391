// The log-probabilities of a reply as JSON, in OpenAI's two forms. Pure functions; thread-safe.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>

#include "clora/model/generation/generation_request.hpp"
#include "clora/model/text/tokenizer.hpp"

namespace clora {

// Of a chat: {"content": [{"token", "logprob", "bytes", "top_logprobs": [...]}], "refusal": null}.
nlohmann::json chat_logprobs(std::span<const GeneratedToken> tokens, const Tokenizer& tokenizer);

// Of a text: {"tokens", "token_logprobs", "top_logprobs", "text_offset"}. An offset is the number
// of characters before the token; `offset` is that of the first one. A token that is not valid
// UTF-8 has the name bytes:\xe2\x80.
nlohmann::json text_logprobs(std::span<const GeneratedToken> tokens, const Tokenizer& tokenizer,
                             std::int64_t offset);

// The number of characters that begin in the texts of the tokens.
std::int64_t characters_of(std::span<const GeneratedToken> tokens, const Tokenizer& tokenizer);

}  // namespace clora
