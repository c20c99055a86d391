// Which bytes of a rendered conversation an assistant writes: the loss mask of a chat template,
// found by rendering, for any template. Private to ChatTemplate. Pure functions.
//
// The turn of message i begins where the rendering of the messages before it ends, with a
// generation prompt, and ends where the rendering up to it ends. A template may render an earlier
// turn differently once the conversation goes on (it drops reasoning, moves the system message).
// Its borders are then found by the bytes of the message's content: what precedes it is compared
// with the end of the generation prompt, what follows it with the end of the shorter rendering.
//
// A turn ends with its last special token, the end of the turn, if it has one: white space after
// that token is the template's, and so is a token that only ends the conversation. {% generation %}
// blocks, where a template has them, decide instead.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "model/text/chat_renderer.hpp"

namespace clora {

struct ChatTurn {
  std::size_t begin = 0, end = 0;  // in bytes
  std::int32_t message = 0;
  bool trains = true;
};

struct TurnQuery {
  std::span<const ChatMessage> messages;
  const ChatOptions& options;
  const ChatText& text;  // the rendering of the messages with the options
  // The ends of the special tokens in a part of a text.
  std::function<std::vector<std::size_t>(std::string_view)> special_ends;
  bool must_find = true;  // a turn that cannot be found is an error; else it is left out
};

// The turns of the assistant's messages, in order. Errors: invalid_argument, "message N: ...", for
// a turn that trains and cannot be found, with what to do.
std::vector<ChatTurn> find_turns(const ChatRenderer& renderer, const TurnQuery& query);

// The {% generation %} blocks of the text, each with the message whose content it has, or else the
// next assistant's.
std::vector<ChatTurn> generated_turns(const TurnQuery& query);

}  // namespace clora
