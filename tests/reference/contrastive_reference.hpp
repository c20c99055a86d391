// The in-batch contrastive loss in double, directly from the formulas of ops/loss/contrastive.hpp.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace clora::test {

struct ContrastiveResult {
  std::vector<double> loss, dx;
};

// x [B, D] for B targets; the gradient is that of weight times the sum of the losses.
inline ContrastiveResult contrastive_reference(std::span<const double> x,
                                               std::span<const std::int32_t> targets, double scale,
                                               double weight) {
  const std::size_t B = targets.size(), D = x.size() / B;
  ContrastiveResult result{std::vector<double>(B), std::vector<double>(x.size())};
  const auto score = [&](std::size_t i, std::size_t j) {
    double dot = 0;
    for (std::size_t d = 0; d < D; ++d) dot += x[i * D + d] * x[j * D + d];
    return scale * dot;
  };
  for (std::size_t i = 0; i < B; ++i) {
    if (targets[i] < 0 || targets[i] == static_cast<std::int32_t>(i)) continue;
    const auto positive = static_cast<std::size_t>(targets[i]);
    double total = 0;
    for (std::size_t j = 0; j < B; ++j) {
      if (targets[j] == static_cast<std::int32_t>(j)) total += std::exp(score(i, j));
    }
    result.loss[i] = std::log(total) - score(i, positive);
    for (std::size_t j = 0; j < B; ++j) {
      if (targets[j] != static_cast<std::int32_t>(j)) continue;
      const double p = std::exp(score(i, j)) / total - (j == positive ? 1 : 0);
      for (std::size_t d = 0; d < D; ++d) {
        result.dx[i * D + d] += weight * scale * p * x[j * D + d];
        result.dx[j * D + d] += weight * scale * p * x[i * D + d];
      }
    }
  }
  return result;
}

}  // namespace clora::test
