// rope as naive loops in double, with cosines and sines from a table [P, E/2, 2].
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace clora::reference {

struct RopeSizes {
  std::size_t tokens = 0;
  std::size_t heads = 0;
  std::size_t width = 0;  // of a head
};

// sign: 1 forward, -1 backward.
inline std::vector<double> rope(std::span<const double> x, std::span<const std::int32_t> positions,
                                std::span<const double> table, RopeSizes sizes, bool interleaved,
                                double sign) {
  std::vector<double> y(x.size());
  const std::size_t half = sizes.width / 2;
  for (std::size_t t = 0; t < sizes.tokens; ++t) {
    for (std::size_t h = 0; h < sizes.heads; ++h) {
      const std::size_t head = (t * sizes.heads + h) * sizes.width;
      for (std::size_t i = 0; i < half; ++i) {
        const std::size_t a = head + (interleaved ? 2 * i : i);
        const std::size_t b = head + (interleaved ? 2 * i + 1 : i + half);
        const std::size_t angle = static_cast<std::size_t>(positions[t]) * half + i;
        const double c = table[2 * angle];
        const double s = sign * table[2 * angle + 1];
        y[a] = x[a] * c - x[b] * s;
        y[b] = x[a] * s + x[b] * c;
      }
    }
  }
  return y;
}

}  // namespace clora::reference
