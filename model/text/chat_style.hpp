// ChatStyle: the chat formats that are known, as values, and how each renders a conversation. The
// renderers give what Jinja gives with the published templates and the settings of Hugging Face's
// transformers, character for character.
//
//   ChatML   <|im_start|>ROLE\nCONTENT<|im_end|>\n, with a default system message or none; Qwen3
//            puts reasoning between <think> and </think> and drops that of earlier turns
//   Llama 3  <|start_header_id|>ROLE<|end_header_id|>\n\nCONTENT<|eot_id|>, content trimmed; from
//            3.1 on with dates in the system message
//   Mistral  [INST] USER [/INST] ASSISTANT</s>, whose spaces differ by release
//   Zephyr   <|ROLE|>\nCONTENT</s>\n
//
// Constant values and pure functions; thread-safe.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace clora {

struct ChatMessage {
  std::string role;  // system, user or assistant
  std::string content;
  bool trains = true;  // an assistant's turn is labelled
};

// One stretch of a rendered conversation: a special token, what an assistant writes up to the end
// of its turn, or all the text between two of these.
struct ChatPiece {
  std::string text;
  bool is_token = false;   // the text is one special token; else special text in it is only text
  bool is_target = false;  // written by the assistant: its content and the end of its turn
};

struct ChatOptions {
  bool add_generation_prompt = false;  // end with the opening of an assistant's turn
  bool enable_thinking = true;         // Qwen3: false opens the turn with an empty reasoning part
  // Special tokens in the contents become these tokens; else they are text.
  bool parse_special = false;
  // What Llama 3.1 and later write as today's date. The default is the templates' own; 3.2's takes
  // the day of the call where transformers runs it, which would make results depend on that day.
  std::string date = "26 Jul 2024";
};

enum class ChatFamily { chatml, llama3, mistral, zephyr };
// What Qwen3's templates do about reasoning: no parts; parts that enable_thinking turns off; a part
// that every generation prompt opens.
enum class Thinking { none, optional, always };
// Mistral's system message: refused; in front of the first user message; in front of the user
// message that ends the conversation, and left out where an assistant ends it (as the published
// templates do); a turn of its own.
enum class MistralSystem { refused, first_user, last_user, own_turn };

struct ChatStyle {
  std::string_view name;
  ChatFamily family = ChatFamily::chatml;
  bool writes_bos = false;
  std::string_view default_system = {};  // ChatML: where the first message is of another role
  Thinking thinking = Thinking::none;
  bool writes_dates = false;       // Llama 3.1 and later
  bool always_opens_turn = false;  // Llama 3's first template has no add_generation_prompt
  MistralSystem system = MistralSystem::refused;
  std::string_view user_begin = {}, user_end = {};  // Mistral; the marks without and with spaces
  std::string_view assistant_begin = {}, assistant_end = {};
  bool trims_assistant = false;
};

// The special tokens that a style writes, as the model's tokenizer has them. Empty: none.
struct ChatMarks {
  std::string bos, eos;
  // Mistral's marks in square brackets ([INST]) are tokens of the vocabulary, and not plain text.
  bool brackets_are_tokens = false;
};

// Errors: invalid_argument for a conversation that the style's template refuses, and for one that
// is empty or has a role besides system, user and assistant.
std::vector<ChatPiece> render_chat(const ChatStyle& style, const ChatMarks& marks,
                                   std::span<const ChatMessage> messages,
                                   const ChatOptions& options);

}  // namespace clora
