// ChatTemplate: how a model wants a conversation written. The Jinja text of the model's files is
// not run; the known templates are recognised by their marks and rendered here:
//   ChatML   <|im_start|>ROLE\nCONTENT<|im_end|>\n, with the template's own default system message
//   Llama 3  <|start_header_id|>ROLE<|end_header_id|>\n\nCONTENT<|eot_id|>, with or without the
//            dates that 3.1 and later put into the system message
// All else is refused by name. Immutable; thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/tokenizer.hpp"

namespace clora {

struct ChatMessage {
  std::string role;  // system, user or assistant
  std::string content;
};

// One stretch of a rendered conversation.
struct ChatPiece {
  std::string text;
  bool is_token = false;   // the text is one special token; else special text in it is only text
  bool is_target = false;  // written by the assistant: its content and the end of its turn
};

struct ChatTokens {
  std::vector<std::int32_t> ids;
  std::vector<std::uint8_t> is_target;  // [ids.size()]
};

class ChatTemplate {
 public:
  enum class Kind { chatml, llama3 };

  // Throws Error(unsupported) for another template, or where its marks are not single tokens of
  // the tokenizer.
  static ChatTemplate recognise(std::string_view template_text, const Tokenizer& tokenizer);

  Kind kind() const { return kind_; }
  const std::string& default_system() const { return default_system_; }  // empty: none

  // The pieces, whose texts together are what the model's template gives. add_generation_prompt:
  // ends with the opening of an assistant's turn. Throws Error(invalid_argument) where there is no
  // message, or a role is another than system, user or assistant.
  std::vector<ChatPiece> render(std::span<const ChatMessage> messages,
                                bool add_generation_prompt) const;

  // The pieces as tokens. The assistant's content is tokenised apart from its header, as it is when
  // the model writes it behind a generation prompt.
  ChatTokens encode(std::span<const ChatMessage> messages, bool add_generation_prompt,
                    const Tokenizer& tokenizer) const;

 private:
  ChatTemplate() = default;
  // The messages with what the template adds to them or takes off.
  std::vector<ChatMessage> turns_of(std::span<const ChatMessage> messages) const;
  void open_turn(const std::string& role, std::string_view content,
                 std::vector<ChatPiece>& pieces) const;
  void append_turn(const ChatMessage& turn, std::vector<ChatPiece>& pieces) const;

  Kind kind_ = Kind::chatml;
  std::string default_system_;  // ChatML: used where the first message is of another role
  std::string system_preface_;  // Llama 3.1: stands in front of every system message
  std::string bos_text_;        // empty: the template writes none
};

}  // namespace clora
