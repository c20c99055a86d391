// Gemma's chat format: <start_of_turn>ROLE\nCONTENT<end_of_turn>\n, where an assistant is called
// model and contents are trimmed. Private to chat_style.cpp, which checks the messages.
#pragma once

#include <span>
#include <vector>

#include "clora/model/text/chat_style.hpp"

namespace clora {

// style.system is refused (Gemma 1 and 2) or first_user (Gemma 3). Errors: those of render_chat().
std::vector<ChatPiece> render_gemma(const ChatStyle& style, const ChatMarks& marks,
                                    std::span<const ChatMessage> messages,
                                    const ChatOptions& options);

}  // namespace clora
