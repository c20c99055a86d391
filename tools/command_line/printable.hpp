// Text from files, models and other programs, made safe for a terminal.
#pragma once

#include <string>
#include <string_view>

namespace clora {

// The text with every byte that could control a terminal written as \xNN: the control characters of
// ASCII (except newline and tab), DEL, the C1 controls U+0080 to U+009F, and bytes that are not
// UTF-8, which some terminals interpret as C1 controls. Pure; thread-safe.
std::string printable(std::string_view text);

}  // namespace clora
