// The log-probabilities of a reply as JSON, in OpenAI's two forms. The functions are pure and
// thread-safe.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <utility>

#include "clora/model/generation/generation_request.hpp"
#include "clora/model/text/tokenizer.hpp"

namespace clora {

// Of a chat: {"content": [{"token", "logprob", "bytes", "top_logprobs": [...]}], "refusal": null}.
nlohmann::json chat_logprobs(std::span<const GeneratedToken> tokens, const Tokenizer& tokenizer);

// A token of a text and the number of characters before it. One whose log-probability is NaN has
// none: the first one of a text that begins with its prompt.
struct PlacedToken {
  GeneratedToken token = {};
  std::int64_t offset = 0;
};

// Of a text: {"tokens", "token_logprobs", "top_logprobs", "text_offset"}. A token that is not valid
// UTF-8 has the name bytes:\xe2\x80; one that has no log-probability, null in its place.
nlohmann::json text_logprobs(std::span<const PlacedToken> tokens, const Tokenizer& tokenizer);

// Where tokens are in a text: first those of its prompt, then those of the reply. A special token
// takes no characters unless the prompt's text has it. Threads: one at a time.
class TokenOffsets {
 public:
  // `prompt`: the text before that of the reply; may be empty.
  explicit TokenOffsets(std::string prompt) : prompt_(std::move(prompt)) {}

  // The number of characters before the next token.
  std::int64_t of_prompt(std::int32_t id, const Tokenizer& tokenizer);
  std::int64_t of_reply(std::int32_t id, const Tokenizer& tokenizer);

 private:
  std::string prompt_;
  std::size_t at_ = 0;  // in the prompt, in bytes
  std::int64_t characters_ = 0;
  bool in_reply_ = false;
};

}  // namespace clora
