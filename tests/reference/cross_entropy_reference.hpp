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
  std::vector<double> nll;      // [T]: the loss without its terms
};

struct LossTerms {
  double label_smoothing = 0, z_loss = 0;
};

// logits [T, V] with T = targets.size(). soft_cap: of the logits; 0: none. The gradient is that of
// the logits before the cap.
inline CrossEntropy cross_entropy(std::span<const double> logits,
                                  std::span<const std::int32_t> targets, double weight,
                                  double soft_cap = 0, LossTerms terms = {}) {
  if (soft_cap > 0) {
    std::vector<double> capped(logits.begin(), logits.end());
    for (double& x : capped) x = soft_cap * std::tanh(x / soft_cap);
    CrossEntropy result = cross_entropy(capped, targets, weight, 0, terms);
    for (std::size_t i = 0; i < capped.size(); ++i) {
      result.dlogits[i] *= 1 - capped[i] / soft_cap * capped[i] / soft_cap;
    }
    return result;
  }
  const std::size_t vocabulary = logits.size() / targets.size();
  const auto& [e, c] = terms;
  CrossEntropy result{std::vector<double>(targets.size()), std::vector<double>(logits.size()),
                      std::vector<double>(targets.size())};
  for (std::size_t t = 0; t < targets.size(); ++t) {
    if (targets[t] < 0) continue;
    const auto row = logits.subspan(t * vocabulary, vocabulary);
    const auto target = static_cast<std::size_t>(targets[t]);
    const double max_logit = *std::ranges::max_element(row);
    double sum = 0;
    for (const double x : row) sum += std::exp(x - max_logit);
    const double lse = std::log(sum) + max_logit;
    const auto count = static_cast<double>(vocabulary);
    result.nll[t] = lse - row[target];
    double uniform = 0;
    if (e > 0) {
      for (const double x : row) uniform += (lse - x) / count;
    }
    result.loss[t] = (1 - e) * result.nll[t] + e * uniform + c * lse * lse;
    for (std::size_t v = 0; v < vocabulary; ++v) {
      const double p = std::exp(row[v] - max_logit) / sum;
      result.dlogits[t * vocabulary + v] =
          (p * (1 + 2 * c * lse) - (v == target ? 1 - e : 0) - e / count) * weight;
    }
  }
  return result;
}

}  // namespace clora::reference
