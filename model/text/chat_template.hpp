// ChatTemplate: how a model's conversations are formatted. The Jinja text of the model's files is
// not executed: a template is accepted only if its text, apart from white space (jinja_text.hpp),
// is one of the known published texts, and is then rendered by the style of that text
// (chat_style.hpp). All others are refused. Immutable; thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "clora/model/text/chat_style.hpp"
#include "clora/model/text/tokenizer.hpp"

namespace clora {

struct ChatTokens {
  std::vector<std::int32_t> ids;
  std::vector<std::uint8_t> is_target;  // [ids.size()]
};

class ChatTemplate {
 public:
  // Returns the template of a model's files. Throws Error(unsupported) for an unknown text, with
  // its first characters, its fingerprint and the known styles; also if a special token that the
  // style writes is missing in the tokenizer.
  static ChatTemplate recognise(std::string_view template_text, const Tokenizer& tokenizer);

  // Returns a style by its name (known_chat_styles.hpp), regardless of the model's files. Throws
  // Error(invalid_argument) for an unknown name, Error(unsupported) as above.
  static ChatTemplate named(std::string_view name, const Tokenizer& tokenizer);

  std::string_view name() const { return style_->name; }
  std::string_view default_system() const { return style_->default_system; }  // empty: none

  // Returns pieces whose concatenated texts equal the output of the model's template. Throws
  // Error(invalid_argument) for a conversation that the template refuses (Mistral's roles must
  // alternate), that is empty, or that has a role other than system, user and assistant.
  std::vector<ChatPiece> render(std::span<const ChatMessage> messages,
                                const ChatOptions& options) const;
  std::vector<ChatPiece> render(std::span<const ChatMessage> messages,
                                bool add_generation_prompt) const {
    return render(messages, ChatOptions{.add_generation_prompt = add_generation_prompt});
  }

  // Returns the pieces as tokens. The assistant's content is tokenised separately from its header,
  // as when the model generates it after a generation prompt.
  ChatTokens encode(std::span<const ChatMessage> messages, const ChatOptions& options,
                    const Tokenizer& tokenizer) const;
  ChatTokens encode(std::span<const ChatMessage> messages, bool add_generation_prompt,
                    const Tokenizer& tokenizer) const {
    return encode(messages, ChatOptions{.add_generation_prompt = add_generation_prompt}, tokenizer);
  }

 private:
  ChatTemplate(const ChatStyle& style, const Tokenizer& tokenizer);

  const ChatStyle* style_;  // points into a constant table; never null
  ChatMarks marks_;
};

}  // namespace clora
