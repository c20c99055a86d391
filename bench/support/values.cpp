#include "bench/support/values.hpp"

#include <algorithm>
#include <cmath>

namespace clora::bench {

double largest_error(std::span<const float> got, std::span<const double> want) {
  if (got.size() != want.size()) return INFINITY;
  double scale = 0, error = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    scale = std::max(scale, std::abs(want[i]));
    const double difference = std::abs(static_cast<double>(got[i]) - want[i]);
    if (!(difference <= error)) error = std::isnan(difference) ? INFINITY : difference;
  }
  return scale > 0 ? error / scale : error;
}

}  // namespace clora::bench
