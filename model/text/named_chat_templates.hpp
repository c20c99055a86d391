// Our own chat templates, by name, for models whose files contain none. Each renders like the
// published templates of its name. Private to ChatTemplate. Constant tables; thread-safe.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "clora/model/text/tokenizer.hpp"

namespace clora {

std::span<const std::string_view> named_chat_template_names();

// "chatml, llama3, ...", for messages.
std::string named_chat_template_list();

// Returns the Jinja text. Throws Error(invalid_argument) for an unknown name, Error(unsupported) if
// a special token that the template writes is missing in the tokenizer.
std::string named_chat_template(std::string_view name, const Tokenizer& tokenizer);

}  // namespace clora
