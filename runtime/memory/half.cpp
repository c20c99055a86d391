#include "runtime/memory/half.hpp"

#include <bit>

namespace clora {
namespace {

constexpr std::uint32_t kF32Infinity = 0x7f800000u;
constexpr std::uint16_t kF16Infinity = 0x7c00u;
constexpr std::uint16_t kF16QuietBit = 0x0200u;
constexpr std::uint16_t kBf16QuietBit = 0x0040u;

}  // namespace

float f16_to_float(std::uint16_t bits) noexcept {
  const std::uint32_t sign = (bits & 0x8000u) << 16;
  const std::uint32_t exponent = (bits >> 10) & 0x1fu;
  const std::uint32_t mantissa = bits & 0x3ffu;
  if (exponent == 0) {  // zero or subnormal: mantissa * 2^-24, exact in f32
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return sign != 0 ? -magnitude : magnitude;
  }
  if (exponent == 0x1f) return std::bit_cast<float>(sign | kF32Infinity | (mantissa << 13));
  return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
}

float bf16_to_float(std::uint16_t bits) noexcept {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

std::uint16_t float_to_f16(float value) noexcept {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000u);
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > kF32Infinity)  // NaN: keep the upper payload bits, make it quiet
    return static_cast<std::uint16_t>(sign | kF16Infinity | kF16QuietBit |
                                      ((magnitude >> 13) & 0x1ffu));
  if (magnitude >= 0x47800000u) return sign | kF16Infinity;  // 2^16 and above
  if (magnitude < 0x38800000u) {  // below 2^-14: the result is a multiple of 2^-24
    // Adding 0.5 leaves exactly those multiples in the mantissa; the addition rounds ties to even.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return static_cast<std::uint16_t>(
        sign | (std::bit_cast<std::uint32_t>(shifted) - std::bit_cast<std::uint32_t>(0.5f)));
  }
  const std::uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
  return static_cast<std::uint16_t>(sign | ((rounded - (112u << 23)) >> 13));
}

std::uint16_t float_to_bf16(float value) noexcept {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffu) > kF32Infinity)
    return static_cast<std::uint16_t>((bits >> 16) | kBf16QuietBit);
  return static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

}  // namespace clora
