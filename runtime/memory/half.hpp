// Conversions of the two 16-bit float formats, as bit patterns on the host: f16 (IEEE binary16) and
// bf16 (the upper half of an f32). Conversion to float is exact for every pattern, including
// subnormals, infinities and NaN. Conversion from float rounds to nearest, ties to even, and a NaN
// stays a (quiet) NaN.
#pragma once

#include <cstdint>

namespace clora {

float f16_to_float(std::uint16_t bits) noexcept;
float bf16_to_float(std::uint16_t bits) noexcept;
std::uint16_t float_to_f16(float value) noexcept;
std::uint16_t float_to_bf16(float value) noexcept;

}  // namespace clora
