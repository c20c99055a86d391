// adamw_q8 in double: the values of the codes by their formula, and the nearest ones by search, for
// tests and benches.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "clora/ops/optimizers/adamw_q8.hpp"

namespace clora::reference {

// The values of all magnitude codes of `bits` bits, rising from 0 to 1.
inline std::vector<double> magnitude_values(int bits) {
  std::vector<double> values{0};
  for (int e = 0; e < bits; ++e) {
    const double end = std::pow(10.0, e - bits + 1);
    const double steps = std::pow(2.0, e);
    for (int from_end = (1 << e) - 1; from_end >= 0; --from_end) {
      values.push_back(end * (1 - 0.9 * from_end / steps));
    }
  }
  return values;
}

// All 256 values of first codes, whose bit 7 is the sign, or of root codes.
inline std::vector<double> code_values(bool has_sign) {
  std::vector<double> values = magnitude_values(has_sign ? 7 : 8);
  if (!has_sign) return values;
  for (std::size_t code = 0; code < 128; ++code) values.push_back(-values[code]);
  return values;
}

inline std::vector<double> decoded(std::span<const std::uint8_t> codes,
                                   std::span<const float> scales, bool has_sign) {
  const std::vector<double> of_code = code_values(has_sign);
  std::vector<double> values;
  for (std::size_t i = 0; i < codes.size(); ++i) {
    values.push_back(of_code[codes[i]] * scales[i / kMomentBlock]);
  }
  return values;
}

// The scale of each block.
inline std::vector<double> block_scales(std::span<const double> values) {
  std::vector<double> scales(static_cast<std::size_t>(moment_blocks(std::ssize(values))));
  for (std::size_t i = 0; i < values.size(); ++i) {
    double& scale = scales[i / kMomentBlock];
    scale = std::max(scale, std::abs(values[i]));
  }
  return scales;
}

// The distance from value / scale to the nearest value of a code. A root above 0 has no code 0.
inline double distance_to_nearest(double value, double scale, bool has_sign) {
  if (scale == 0) return 0;
  static const std::vector<double> kSigned = magnitude_values(7);
  static const std::vector<double> kAll = magnitude_values(8);
  const std::vector<double>& values = has_sign ? kSigned : kAll;
  const double magnitude = std::abs(value) / scale;
  const auto first = values.begin() + (!has_sign && magnitude > 0 ? 1 : 0);
  const auto above = std::lower_bound(first, values.end(), magnitude);
  double distance = above == values.end() ? magnitude - 1 : *above - magnitude;
  if (above != first) distance = std::min(distance, magnitude - *(above - 1));
  return distance;
}

}  // namespace clora::reference
