#include "model/transformer/position_bias.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace clora {

// In f32, as transformers computes it: the borders of buckets depend on it.
std::int64_t bucket_of(std::int64_t distance, const PositionBiasSpec& spec) {
  const std::int64_t half = spec.buckets / 2, exact = half / 2;
  const std::int64_t begin = distance > 0 ? half : 0;
  const std::int64_t n = std::abs(distance);
  if (n < exact) return begin + n;
  const float ratio = static_cast<float>(n) / static_cast<float>(exact);
  const auto widest = static_cast<float>(
      std::log(static_cast<double>(spec.max_distance) / static_cast<double>(exact)));
  const float part = std::log(ratio) / widest * static_cast<float>(half - exact);
  return begin + std::min(half - 1, exact + static_cast<std::int64_t>(part));
}

std::vector<float> bias_by_distance(std::span<const float> table, const PositionBiasSpec& spec,
                                    std::int64_t heads, std::int64_t positions) {
  std::vector<float> bias;
  for (std::int64_t h = 0; h < heads; ++h) {
    for (std::int64_t distance = 1 - positions; distance < positions; ++distance) {
      bias.push_back(table[static_cast<std::size_t>(bucket_of(distance, spec) * heads + h)]);
    }
  }
  return bias;
}

}  // namespace clora
