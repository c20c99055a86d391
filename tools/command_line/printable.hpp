// Text from files, models and other programs as a terminal may show it.
#pragma once

#include <string>
#include <string_view>

namespace clora {

// The text with every byte that could steer a terminal written as \xNN: the control characters of
// ASCII (newline and tab stay), DEL, the C1 controls U+0080 to U+009F, and bytes that are not
// UTF-8, which some terminals take for C1 controls. Pure; thread-safe.
std::string printable(std::string_view text);

}  // namespace clora
