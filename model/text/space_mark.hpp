// SentencePiece's mark for a space in tokens, U+2581.
#pragma once

#include <cstdint>
#include <string_view>

namespace clora {

inline constexpr std::string_view kSpaceMark = "\xE2\x96\x81";  // in UTF-8
inline constexpr std::int32_t kSpaceMarkCode = 0x2581;

}  // namespace clora
