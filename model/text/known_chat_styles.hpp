// The chat styles that have a name, and the published templates that render like one of them.
// Constant tables; thread-safe.
#pragma once

#include <span>
#include <string_view>

#include "model/text/chat_style.hpp"

namespace clora {

std::span<const ChatStyle> known_chat_styles();

// nullptr where there is none. Styles live as long as the program.
const ChatStyle* find_chat_style(std::string_view name);
const ChatStyle* find_style_of_template(std::string_view fingerprint);  // of jinja_fingerprint()

// "chatml, llama3, ...": for messages.
std::string known_chat_style_names();

}  // namespace clora
