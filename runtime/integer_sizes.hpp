// Sizes as integers: rounded up to multiples, and in the type which kernels take.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace clora {

// value / by, rounded up. REQUIRES: value >= 0, by > 0, and value + by - 1 fits the common type.
template <std::integral Value, std::integral By>
constexpr std::common_type_t<Value, By> divide_up(Value value, By by) {
  using Common = std::common_type_t<Value, By>;
  return (static_cast<Common>(value) + static_cast<Common>(by) - 1) / static_cast<Common>(by);
}

// The smallest multiple that is at least value. REQUIRES: as for divide_up(), and the result fits.
template <std::integral Value, std::integral Multiple>
constexpr std::common_type_t<Value, Multiple> round_up(Value value, Multiple multiple) {
  return divide_up(value, multiple) * static_cast<std::common_type_t<Value, Multiple>>(multiple);
}

// Sizes in the types that kernels take. REQUIRES: 0 <= size < 2^32, or 2^31, which ops check.
constexpr std::uint32_t u32(std::int64_t size) { return static_cast<std::uint32_t>(size); }
constexpr std::int32_t i32(std::int64_t size) { return static_cast<std::int32_t>(size); }

}  // namespace clora
