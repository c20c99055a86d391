// Decimal integers in text from users and files. Pure function; thread-safe.
#pragma once

#include <charconv>
#include <concepts>
#include <cstdint>
#include <optional>
#include <string_view>
#include <system_error>

namespace clora {

// The integer that the complete text is: "64", "-3". nullopt for any other text, such as "", "+1",
// "1 " or a number that the type cannot represent.
template <std::integral Integer = std::int64_t>
std::optional<Integer> parse_integer(std::string_view text) {
  Integer value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end) return std::nullopt;
  return value;
}

}  // namespace clora
