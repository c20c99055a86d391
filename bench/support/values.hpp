// Numbers for benches, reproducible on every machine for a given seed.
#pragma once

#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "clora/runtime/memory/shape.hpp"

namespace clora::bench {

// Uniform values in [-1, 1).
inline std::vector<float> random_values(std::size_t count, std::uint32_t seed) {
  std::mt19937 generator(seed);
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(generator() >> 8U) * 0x1p-23F - 1.0F;
  return values;
}

inline std::vector<double> to_double(std::span<const float> values) {
  return {values.begin(), values.end()};
}

// Uniform values in [-scale, scale) on the host, as floats for the device and as doubles for the
// reference.
struct Operand {
  Shape shape;
  std::vector<float> floats;
  std::vector<double> values;

  Operand(const Shape& of_shape, std::uint32_t seed, float scale = 1)
      : shape(of_shape), floats(random_values(static_cast<std::size_t>(shape.elements()), seed)) {
    for (float& value : floats) value *= scale;
    values = to_double(floats);
  }
};

// The largest |got - want| relative to the largest |want|; infinite if a value is NaN.
double largest_error(std::span<const float> got, std::span<const double> want);

}  // namespace clora::bench
