// The named chat styles, and the published templates that render like one of them. Constant tables;
// thread-safe.
#pragma once

#include <span>
#include <string_view>

#include "clora/model/text/chat_style.hpp"

namespace clora {

std::span<const ChatStyle> known_chat_styles();

// Return nullptr if there is none. Styles have static storage duration.
const ChatStyle* find_chat_style(std::string_view name);
const ChatStyle* find_style_of_template(std::string_view fingerprint);  // a jinja_fingerprint()

// Returns "chatml, llama3, ...", for messages.
std::string known_chat_style_names();

}  // namespace clora
