// ChatRenderer: a parsed template and the special tokens that it writes, and how a conversation
// becomes its variables. Private to ChatTemplate. Immutable; thread-safe.
#pragma once

#include <span>
#include <string>

#include "clora/model/text/chat_template.hpp"
#include "model/text/jinja/template.hpp"

namespace clora {

struct ChatRenderer {
  std::string name;  // of a named template; else empty
  jinja::Template parsed;
  jinja::Dict tokens;  // bos_token, eos_token, ...
  ChatSupport support = {};

  // As ChatTemplate::render(), also for no messages.
  ChatText render(std::span<const ChatMessage> messages, const ChatOptions& options) const;
};

// bos_token, eos_token and sep_token of the tokenizer, as far as it has them.
jinja::Dict special_tokens_of(const Tokenizer& tokenizer);

// Renders short conversations. Errors in them are findings, not failures.
ChatSupport find_support(const ChatRenderer& renderer, std::string_view template_text);

}  // namespace clora
