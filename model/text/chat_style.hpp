// ChatStyle: the supported chat formats as values, and how each renders a conversation. The output
// is the same, character for character, as that of Jinja with the published templates and the
// settings of Hugging Face's transformers.
//
//   ChatML   <|im_start|>ROLE\nCONTENT<|im_end|>\n, with a default system message or none; Qwen3
//            puts reasoning between <think> and </think> and drops that of earlier turns
//   Llama 3  <|start_header_id|>ROLE<|end_header_id|>\n\nCONTENT<|eot_id|>, content trimmed; from
//            3.1 on with dates in the system message
//   Mistral  [INST] USER [/INST] ASSISTANT</s>; the spaces differ by release
//   Zephyr   <|ROLE|>\nCONTENT</s>\n
//   Gemma    <start_of_turn>ROLE\nCONTENT<end_of_turn>\n, content trimmed
//
// Constant values and pure functions; thread-safe.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "clora/model/text/chat_message.hpp"

namespace clora {

// One piece of a rendered conversation: a special token, an assistant's text up to the end of its
// turn, or the text between two of these.
struct ChatPiece {
  std::string text;
  bool is_token = false;   // one special token; else special tokens in the text are plain text
  bool is_target = false;  // written by the assistant: its content and the end of its turn
};

enum class ChatFamily { chatml, llama3, mistral, zephyr, gemma };
// How Qwen3's templates treat reasoning: not at all; optional, turned off by enable_thinking;
// always, opened by every generation prompt.
enum class Thinking { none, optional, always };
// Mistral's and Gemma's system message: refused; before the first user message; before the user
// message that ends the conversation, and omitted if an assistant message ends it (as in the
// published templates); its own turn.
enum class SystemPlace { refused, first_user, last_user, own_turn };

struct ChatStyle {
  std::string_view name;
  ChatFamily family = ChatFamily::chatml;
  bool writes_bos = false;
  std::string_view default_system = {};  // ChatML: used if the first message has another role
  Thinking thinking = Thinking::none;
  bool writes_dates = false;       // Llama 3.1 and later
  bool always_opens_turn = false;  // Llama 3's first template has no add_generation_prompt
  SystemPlace system = SystemPlace::refused;
  std::string_view user_begin = {}, user_end = {};  // Mistral; the marks without and with spaces
  std::string_view assistant_begin = {}, assistant_end = {};
  bool trims_assistant = false;
};

// The special tokens that a style writes, as spelled by the model's tokenizer. Empty: none.
struct ChatMarks {
  std::string bos, eos;
  // Mistral's marks in square brackets ([INST]) are tokens of the vocabulary, not plain text.
  bool brackets_are_tokens = false;
};

// Errors: invalid_argument for a conversation that the style's template refuses, that is empty, or
// that has a role other than system, user and assistant.
std::vector<ChatPiece> render_chat(const ChatStyle& style, const ChatMarks& marks,
                                   std::span<const ChatMessage> messages,
                                   const ChatOptions& options);

}  // namespace clora
