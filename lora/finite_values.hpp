// Checks for NaN and infinities on the host: in matrices that are read from files, and in results
// before they are used or saved. Pure functions; thread-safe.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace clora {

// Whether every value is finite. The loop has no branch, so that compilers vectorise it.
inline bool all_finite(std::span<const float> values) {
  constexpr std::uint32_t kExponent = 0x7f800000U;  // all ones: NaN or an infinity
  std::uint32_t found = 0;
  for (const float value : values) {
    const std::uint32_t exponent = std::bit_cast<std::uint32_t>(value) & kExponent;
    found |= exponent == kExponent ? 1U : 0U;
  }
  return found == 0;
}

// The index of the first value that is not finite; empty if there is none.
inline std::optional<std::size_t> first_not_finite(std::span<const float> values) {
  if (all_finite(values)) return std::nullopt;
  const auto at = std::ranges::find_if(values, [](float value) { return !std::isfinite(value); });
  return static_cast<std::size_t>(at - values.begin());
}

// "NaN", "infinity" or "-infinity", for messages. REQUIRES: value is not finite.
inline std::string_view name_of_not_finite(float value) {
  if (std::isnan(value)) return "NaN";
  return value > 0 ? "infinity" : "-infinity";
}

}  // namespace clora
