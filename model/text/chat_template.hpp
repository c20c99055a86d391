// ChatTemplate: how a model's conversations are formatted. The Jinja text that the model brings is
// executed (model/text/jinja) with the variables that transformers gives it; a model without one
// takes a template by name. Immutable; thread-safe; copies share the parsed text.
//
// A rendered byte is the template's own or comes from the conversation. Special tokens are parsed
// in the template's text only, so a content cannot forge a turn, and the bytes of a message show
// which tokens are an assistant's turn.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "clora/model/text/chat_message.hpp"
#include "clora/model/text/tokenizer.hpp"

namespace clora {

// A rendered conversation.
struct ChatText {
  // The bytes [begin, end) of the text, in order and without gaps.
  struct Run {
    std::size_t begin = 0, end = 0;
    bool is_template = true;    // else special tokens in it are plain text
    std::int32_t message = -1;  // the message whose content it is; -1: none
    bool generated = false;     // inside of a {% generation %} block
  };
  std::string text;
  std::vector<Run> runs;
};

struct ChatTokens {
  std::vector<std::int32_t> ids;
  std::vector<std::uint8_t> is_target;  // [ids.size()]
  // [ids.size()]: the message that the token belongs to, or -1.
  std::vector<std::int32_t> turn = {};
};

// What a template renders, found out by rendering short conversations.
struct ChatSupport {
  bool system = false;           // renders a system message
  bool tools = false;            // renders the functions of ChatOptions::tools
  bool tool_calls = false;       // renders an assistant's tool_calls
  bool text_content = true;      // renders a content that is a text
  bool typed_content = false;    // renders a content that is a list of typed parts
  bool null_content = false;     // a content may be null
  bool text_arguments = true;    // renders the arguments of a call that are JSON text
  bool object_arguments = true;  // renders the arguments of a call that are an object
  bool thinking = false;         // renders reasoning, or reads enable_thinking
  bool generation = false;       // marks what the model generates with {% generation %}
};

class ChatTemplate {
 public:
  // A template's text: the one of a model's files. Throws Error(unsupported) for an empty text, or
  // one that is not a template of the language, with the line.
  static ChatTemplate parse(std::string_view template_text, const Tokenizer& tokenizer);

  // The template of a model's files; with one named "tool_use", that renders conversations with
  // tools. Errors as those of parse().
  static ChatTemplate of_model(const Tokenizer& tokenizer);

  // One of our own templates, by its name (chat_template_names()), regardless of the model's files.
  // Throws Error(invalid_argument) for an unknown name, Error(unsupported) if a special token that
  // it writes is missing in the tokenizer.
  static ChatTemplate named(std::string_view name, const Tokenizer& tokenizer);

  // The name of a named template; else empty.
  std::string_view name() const;
  const ChatSupport& support() const;

  // Returns the output of the template. Contents are given as it takes them: typed parts are joined
  // if it does not render them, a text becomes one typed part if it renders nothing else. Throws
  // Error(invalid_argument) for a conversation that the template refuses, or that is empty.
  ChatText render(std::span<const ChatMessage> messages, const ChatOptions& options) const;

  // Returns the tokens of the output. An assistant's turn is tokenised separately from what
  // precedes it, as when the model generates it after a generation prompt. Without
  // add_generation_prompt, Error(invalid_argument) is also thrown if the turn of an assistant that
  // trains cannot be found in the output (chat_turns.hpp).
  ChatTokens encode(std::span<const ChatMessage> messages, const ChatOptions& options,
                    const Tokenizer& tokenizer) const;
  ChatTokens encode(std::span<const ChatMessage> messages, bool add_generation_prompt,
                    const Tokenizer& tokenizer) const {
    return encode(messages, ChatOptions{.add_generation_prompt = add_generation_prompt}, tokenizer);
  }

 private:
  struct Parts;
  explicit ChatTemplate(std::shared_ptr<const Parts> parts) : parts_(std::move(parts)) {}

  std::shared_ptr<const Parts> parts_;
};

// The names that ChatTemplate::named() knows. Static storage duration.
std::span<const std::string_view> chat_template_names();

}  // namespace clora
