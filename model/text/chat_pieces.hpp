// ChatPieces: collects the pieces of a rendered conversation; adjacent texts are joined. Private to
// the renderers of chat styles.
#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "clora/model/text/chat_style.hpp"

namespace clora {

class ChatPieces {
 public:
  void text(std::string_view text);

  // Adds an assistant's text as a separate piece, and the token that ends the turn.
  void answer(std::string_view text, std::string_view end, bool is_target);

  void token(std::string_view text, bool is_target = false);

  // Adds a text with a mark in square brackets, which is a token or plain text.
  void brackets(std::string_view text, bool are_tokens);

  std::vector<ChatPiece> take() { return std::move(pieces_); }

 private:
  std::vector<ChatPiece> pieces_;
};

// Returns the text without the white space at its ends, as Jinja's trim does.
std::string_view trimmed(std::string_view text);

}  // namespace clora
