// ChatTemplate: how a model wants a conversation written. The Jinja text of the model's files is
// not run: a template is accepted only where its text, white space aside (jinja_text.hpp), is one
// of the published texts that are known here, and is then rendered by the style of that text
// (chat_style.hpp). All else is refused. Immutable; thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/text/chat_style.hpp"
#include "model/text/tokenizer.hpp"

namespace clora {

struct ChatTokens {
  std::vector<std::int32_t> ids;
  std::vector<std::uint8_t> is_target;  // [ids.size()]
};

class ChatTemplate {
 public:
  // The template of a model's files. Throws Error(unsupported) for a text that is not known, with
  // its first characters, its fingerprint and the styles that are; and where a special token that
  // the style writes is none of the tokenizer's.
  static ChatTemplate recognise(std::string_view template_text, const Tokenizer& tokenizer);

  // A style by its name (known_chat_styles.hpp), whatever the model's files hold. Throws
  // Error(invalid_argument) for a name that is not known, Error(unsupported) as above.
  static ChatTemplate named(std::string_view name, const Tokenizer& tokenizer);

  std::string_view name() const { return style_->name; }
  std::string_view default_system() const { return style_->default_system; }  // empty: none

  // The pieces, whose texts together are what the model's template gives. Throws
  // Error(invalid_argument) for a conversation that the template refuses (Mistral's roles
  // alternate), or that is empty or has a role besides system, user and assistant.
  std::vector<ChatPiece> render(std::span<const ChatMessage> messages,
                                const ChatOptions& options) const;
  std::vector<ChatPiece> render(std::span<const ChatMessage> messages,
                                bool add_generation_prompt) const {
    return render(messages, ChatOptions{.add_generation_prompt = add_generation_prompt});
  }

  // The pieces as tokens. The assistant's content is tokenised apart from its header, as it is when
  // the model writes it after a generation prompt.
  ChatTokens encode(std::span<const ChatMessage> messages, const ChatOptions& options,
                    const Tokenizer& tokenizer) const;
  ChatTokens encode(std::span<const ChatMessage> messages, bool add_generation_prompt,
                    const Tokenizer& tokenizer) const {
    return encode(messages, ChatOptions{.add_generation_prompt = add_generation_prompt}, tokenizer);
  }

 private:
  ChatTemplate(const ChatStyle& style, const Tokenizer& tokenizer);

  const ChatStyle* style_;  // of the table, never null
  ChatMarks marks_;
};

}  // namespace clora
