#include "clora/model/text/chat_style.hpp"

#include "model/text/chat_gemma.hpp"
#include "model/text/chat_pieces.hpp"
#include "runtime/fail.hpp"

namespace clora {
namespace {

std::string_view without_leading_breaks(std::string_view text) {
  const std::size_t begin = text.find_first_not_of('\n');
  return begin == std::string_view::npos ? std::string_view() : text.substr(begin);
}

std::string_view without_trailing_breaks(std::string_view text) {
  return text.substr(0, text.find_last_not_of('\n') + 1);
}

void check_messages(std::span<const ChatMessage> messages) {
  require(!messages.empty(), "chat template: a conversation needs at least one message, got none");
  for (const ChatMessage& m : messages) {
    const bool known = m.role == "system" || m.role == "user" || m.role == "assistant";
    require(known, "chat template: a role must be system, user or assistant, got '{}'", m.role);
  }
}

// An assistant's answer as Qwen3's template parses it: text before the last </think> is reasoning.
struct Answer {
  std::string_view reasoning, content;
};

Answer split_reasoning(std::string_view text) {
  constexpr std::string_view kBegin = "<think>", kEnd = "</think>";
  const std::size_t first = text.find(kEnd);
  if (first == std::string_view::npos) return {{}, text};
  std::string_view reasoning = without_trailing_breaks(text.substr(0, first));
  const std::size_t begin = reasoning.rfind(kBegin);
  if (begin != std::string_view::npos) reasoning.remove_prefix(begin + kBegin.size());
  const std::string_view content = text.substr(text.rfind(kEnd) + kEnd.size());
  return {without_leading_breaks(reasoning), without_leading_breaks(content)};
}

class ChatMl {
 public:
  ChatMl(const ChatStyle& style, const ChatMarks& marks) : style_(style), marks_(marks) {}

  std::vector<ChatPiece> render(std::span<const ChatMessage> messages, const ChatOptions& options) {
    if (style_.writes_bos) pieces_.token(marks_.bos);
    if (messages.front().role != "system" && !style_.default_system.empty()) {
      turn("system", style_.default_system);
    }
    const std::size_t query = last_query(messages);
    for (std::size_t i = 0; i < messages.size(); ++i) {
      const ChatMessage& message = messages[i];
      if (message.role == "assistant") {
        answer(message, i > query, i + 1 == messages.size());
      } else {
        turn(message.role, message.content);
      }
    }
    if (options.add_generation_prompt) open_answer(options.enable_thinking);
    return pieces_.take();
  }

 private:
  // Returns the last user message that is not a tool response, or the last message if there is
  // none.
  static std::size_t last_query(std::span<const ChatMessage> messages) {
    for (std::size_t i = messages.size(); i-- > 0;) {
      const std::string& content = messages[i].content;
      const bool of_tool =
          content.starts_with("<tool_response>") && content.ends_with("</tool_response>");
      if (messages[i].role == "user" && !of_tool) return i;
    }
    return messages.size() - 1;
  }

  void open(std::string_view role) {
    pieces_.token("<|im_start|>");
    pieces_.text(role);
    pieces_.text("\n");
  }

  void turn(std::string_view role, std::string_view content) {
    open(role);
    pieces_.text(content);
    pieces_.token("<|im_end|>");
    pieces_.text("\n");
  }

  void answer(const ChatMessage& message, bool after_query, bool is_last) {
    open("assistant");
    std::string text = message.content;
    if (style_.thinking != Thinking::none) {
      const auto [reasoning, content] = split_reasoning(message.content);
      if (after_query && (is_last || !reasoning.empty())) {
        text = fmt::format("<think>\n{}\n</think>\n\n{}",
                           without_leading_breaks(without_trailing_breaks(reasoning)),
                           without_leading_breaks(content));
      } else {
        text = content;
      }
    }
    pieces_.answer(text, "<|im_end|>", message.trains);
    pieces_.text("\n");
  }

  void open_answer(bool enable_thinking) {
    open("assistant");
    if (style_.thinking == Thinking::always) pieces_.text("<think>\n");
    if (style_.thinking == Thinking::optional && !enable_thinking) {
      pieces_.text("<think>\n\n</think>\n\n");
    }
  }

  const ChatStyle& style_;
  const ChatMarks& marks_;
  ChatPieces pieces_;
};

class Llama3 {
 public:
  Llama3(const ChatStyle& style, const ChatMarks& marks) : style_(style), marks_(marks) {}

  std::vector<ChatPiece> render(std::span<const ChatMessage> messages, const ChatOptions& options) {
    pieces_.token(marks_.bos);
    if (style_.writes_dates) {
      const bool has_system = messages.front().role == "system";
      system_with_dates(has_system ? messages.front().content : std::string(), options.date);
      if (has_system) messages = messages.subspan(1);
    }
    for (const ChatMessage& message : messages) turn(message);
    if (options.add_generation_prompt || style_.always_opens_turn) open("assistant");
    return pieces_.take();
  }

 private:
  void open(std::string_view role) {
    pieces_.token("<|start_header_id|>");
    pieces_.text(role);
    pieces_.token("<|end_header_id|>");
    pieces_.text("\n\n");
  }

  void system_with_dates(std::string_view content, std::string_view date) {
    open("system");
    pieces_.text(fmt::format("Cutting Knowledge Date: December 2023\nToday Date: {}\n\n{}", date,
                             trimmed(content)));
    pieces_.token("<|eot_id|>");
  }

  void turn(const ChatMessage& message) {
    open(message.role);
    const std::string_view content = trimmed(message.content);
    if (message.role == "assistant") return pieces_.answer(content, "<|eot_id|>", message.trains);
    pieces_.text(content);
    pieces_.token("<|eot_id|>");
  }

  const ChatStyle& style_;
  const ChatMarks& marks_;
  ChatPieces pieces_;
};

class Mistral {
 public:
  Mistral(const ChatStyle& style, const ChatMarks& marks) : style_(style), marks_(marks) {}

  std::vector<ChatPiece> render(std::span<const ChatMessage> messages) {
    std::string_view system;
    const bool has_system = messages.front().role == "system" && merges_system();
    if (has_system) {
      system = messages.front().content;
      messages = messages.subspan(1);
    }
    if (style_.system != SystemPlace::own_turn) require_alternation(messages);
    pieces_.token(marks_.bos);
    for (std::size_t i = 0; i < messages.size(); ++i) {
      const bool takes_system =
          has_system &&
          (style_.system == SystemPlace::first_user ? i == 0 : i + 1 == messages.size());
      turn(messages[i], takes_system ? std::string(system) + "\n\n" : std::string());
    }
    return pieces_.take();
  }

 private:
  bool merges_system() const {
    return style_.system == SystemPlace::first_user || style_.system == SystemPlace::last_user;
  }

  void require_alternation(std::span<const ChatMessage> messages) const {
    for (std::size_t i = 0; i < messages.size(); ++i) {
      const std::string_view wanted = i % 2 == 0 ? "user" : "assistant";
      require(messages[i].role == wanted,
              "chat template {}: roles must alternate between user and assistant{}; message {} of "
              "the conversation must have the role {}, got {}",
              style_.name,
              merges_system() ? " after an optional system message"
                              : ", and system messages are not supported",
              i + 1, wanted, messages[i].role);
    }
  }

  void turn(const ChatMessage& message, std::string_view system) {
    const bool tokens = marks_.brackets_are_tokens;
    if (message.role == "system") {
      pieces_.brackets(system_mark(style_.user_begin, ""), tokens);
      pieces_.text(message.content);
      pieces_.brackets(system_mark(style_.user_end, "/"), tokens);
    } else if (message.role == "user") {
      pieces_.brackets(style_.user_begin, tokens);
      pieces_.text(system);
      pieces_.text(message.content);
      pieces_.brackets(style_.user_end, tokens);
    } else {
      answer(message);
    }
  }

  // Returns "[SYSTEM_PROMPT] " for "[INST] ", with the same spaces.
  static std::string system_mark(std::string_view user_mark, std::string_view slash) {
    const std::size_t end = user_mark.find(']');
    return fmt::format("[{}SYSTEM_PROMPT{}", slash, user_mark.substr(end));
  }

  void answer(const ChatMessage& message) {
    std::string text(style_.assistant_begin);
    text += style_.trims_assistant ? trimmed(message.content) : message.content;
    pieces_.answer(text, marks_.eos, message.trains);
    pieces_.text(style_.assistant_end);
  }

  const ChatStyle& style_;
  const ChatMarks& marks_;
  ChatPieces pieces_;
};

std::vector<ChatPiece> render_zephyr(const ChatMarks& marks, std::span<const ChatMessage> messages,
                                     const ChatOptions& options) {
  ChatPieces pieces;
  for (const ChatMessage& message : messages) {
    pieces.text(fmt::format("<|{}|>\n", message.role));
    if (message.role == "assistant") {
      pieces.answer(message.content, marks.eos, message.trains);
    } else {
      pieces.text(message.content);
      pieces.token(marks.eos);
    }
    pieces.text("\n");
  }
  if (options.add_generation_prompt) pieces.text("<|assistant|>\n");
  return pieces.take();
}

}  // namespace

std::vector<ChatPiece> render_chat(const ChatStyle& style, const ChatMarks& marks,
                                   std::span<const ChatMessage> messages,
                                   const ChatOptions& options) {
  check_messages(messages);
  switch (style.family) {
    case ChatFamily::chatml:
      return ChatMl(style, marks).render(messages, options);
    case ChatFamily::llama3:
      return Llama3(style, marks).render(messages, options);
    case ChatFamily::mistral:
      return Mistral(style, marks).render(messages);
    case ChatFamily::zephyr:
      return render_zephyr(marks, messages, options);
    case ChatFamily::gemma:
      return render_gemma(style, marks, messages, options);
  }
  return {};
}

}  // namespace clora
