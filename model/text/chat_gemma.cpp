#include "model/text/chat_gemma.hpp"

#include "model/text/chat_pieces.hpp"
#include "runtime/fail.hpp"

namespace clora {
namespace {

void open_turn(ChatPieces& pieces, std::string_view role) {
  pieces.token("<start_of_turn>");
  pieces.text(role == "assistant" ? "model" : role);
  pieces.text("\n");
}

void add_turn(ChatPieces& pieces, const ChatMessage& message, std::string_view system) {
  open_turn(pieces, message.role);
  const std::string_view content = trimmed(message.content);
  if (message.role == "assistant") {
    pieces.answer(content, "<end_of_turn>", message.trains);
  } else {
    pieces.text(system);
    pieces.text(content);
    pieces.token("<end_of_turn>");
  }
  pieces.text("\n");
}

// As in the published templates, a later system message may take the turn of an assistant.
void require_alternation(const ChatStyle& style, std::span<const ChatMessage> messages) {
  for (std::size_t i = 0; i < messages.size(); ++i)
    require((messages[i].role == "user") == (i % 2 == 0),
            "chat template {}: roles must alternate between user and assistant, beginning with "
            "user{}; got {} as number {}",
            style.name,
            style.system == SystemPlace::refused ? "" : ", after an optional system message",
            messages[i].role, i + 1);
}

}  // namespace

std::vector<ChatPiece> render_gemma(const ChatStyle& style, const ChatMarks& marks,
                                    std::span<const ChatMessage> messages,
                                    const ChatOptions& options) {
  std::string system;
  if (messages.front().role == "system" && style.system == SystemPlace::first_user) {
    system = messages.front().content + "\n\n";
    messages = messages.subspan(1);
  }
  require_alternation(style, messages);
  ChatPieces pieces;
  pieces.token(marks.bos);
  for (const ChatMessage& message : messages) {
    add_turn(pieces, message, system);
    system.clear();
  }
  if (options.add_generation_prompt) open_turn(pieces, "assistant");
  return pieces.take();
}

}  // namespace clora
