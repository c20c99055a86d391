// cross_entropy in double: naive loops, for tests and benches.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace clora::reference {

struct CrossEntropy {
  std::vector<double> loss;     // [T]
  std::vector<double> dlogits;  // [T, V]: gradient of weight * sum of loss
};

// logits [T, V] with T = targets.size(). soft_cap: of the logits; 0: none. The gradient is that of
// the logits before the cap.
inline CrossEntropy cross_entropy(std::span<const double> logits,
                                  std::span<const std::int32_t> targets, double weight,
                                  double soft_cap = 0) {
  if (soft_cap > 0) {
    std::vector<double> capped(logits.begin(), logits.end());
    for (double& x : capped) x = soft_cap * std::tanh(x / soft_cap);
    CrossEntropy result = cross_entropy(capped, targets, weight);
    for (std::size_t i = 0; i < capped.size(); ++i) {
      result.dlogits[i] *= 1 - capped[i] / soft_cap * capped[i] / soft_cap;
    }
    return result;
  }
  const std::size_t vocabulary = logits.size() / targets.size();
  CrossEntropy result{std::vector<double>(targets.size()), std::vector<double>(logits.size())};
  for (std::size_t t = 0; t < targets.size(); ++t) {
    if (targets[t] < 0) continue;
    const auto row = logits.subspan(t * vocabulary, vocabulary);
    const auto target = static_cast<std::size_t>(targets[t]);
    const double max_logit = *std::ranges::max_element(row);
    double sum = 0;
    for (const double x : row) sum += std::exp(x - max_logit);
    result.loss[t] = std::log(sum) + max_logit - row[target];
    for (std::size_t v = 0; v < vocabulary; ++v) {
      const double p = std::exp(row[v] - max_logit) / sum;
      result.dlogits[t * vocabulary + v] = (p - (v == target ? 1 : 0)) * weight;
    }
  }
  return result;
}

}  // namespace clora::reference
