// Attention in double, directly from the formulas of ops/attention/attention.hpp.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace clora::test {

struct AttentionSizes {
  std::size_t T, Tk, H, G, E;
  std::size_t queries() const { return T * H * E; }
  std::size_t keys() const { return Tk * G * E; }
};

// 0: no cap.
inline double soft_capped(double score, double cap) {
  return cap == 0 ? score : cap * std::tanh(score / cap);
}

// The derivative of a capped score.
inline double slope_of(double capped, double cap) {
  return cap == 0 ? 1 : 1 - capped / cap * capped / cap;
}

struct AttentionResult {
  std::vector<double> y, log_sum_exp;
};

// The probabilities of row t and head h over the keys first .. last, and their log-sum-exp.
inline std::vector<double> attention_weights(const AttentionSizes& n, std::span<const double> q,
                                             std::span<const double> k, std::size_t t,
                                             std::size_t h, std::size_t first, std::size_t last,
                                             double scale, double cap, double& log_sum_exp,
                                             std::span<const double> bias = {}) {
  const std::size_t g = h / (n.H / n.G);
  std::vector<double> scores;
  for (std::size_t key = first; key <= last; ++key) {
    double dot = 0;
    for (std::size_t e = 0; e < n.E; ++e) {
      dot += q[(t * n.H + h) * n.E + e] * k[(key * n.G + g) * n.E + e];
    }
    scores.push_back(soft_capped(dot * scale, cap));
    if (bias.empty()) continue;
    const std::size_t distances = bias.size() / n.H;
    scores.back() += bias[h * distances + distances / 2 + key - t];
  }
  const double row_max = *std::ranges::max_element(scores);
  double total = 0;
  for (const double s : scores) total += std::exp(s - row_max);
  log_sum_exp = row_max + std::log(total);
  for (double& s : scores) s = std::exp(s - log_sum_exp);
  return scores;
}

inline AttentionResult attention_reference(const AttentionSizes& n, std::span<const double> q,
                                           std::span<const double> k, std::span<const double> v,
                                           std::span<const std::int32_t> first,
                                           std::span<const std::int32_t> last, double scale,
                                           double cap = 0, std::span<const double> bias = {}) {
  AttentionResult result{std::vector<double>(n.queries()), std::vector<double>(n.T * n.H)};
  for (std::size_t t = 0; t < n.T; ++t) {
    for (std::size_t h = 0; h < n.H; ++h) {
      const auto begin = static_cast<std::size_t>(first[t]);
      const auto p = attention_weights(n, q, k, t, h, begin, static_cast<std::size_t>(last[t]),
                                       scale, cap, result.log_sum_exp[t * n.H + h], bias);
      for (std::size_t i = 0; i < p.size(); ++i) {
        for (std::size_t e = 0; e < n.E; ++e) {
          result.y[(t * n.H + h) * n.E + e] +=
              p[i] * v[((begin + i) * n.G + h / (n.H / n.G)) * n.E + e];
        }
      }
    }
  }
  return result;
}

struct QkvGradients {
  std::vector<double> dq, dk, dv;
};

// Packed rows.
inline QkvGradients attention_backward_reference(
    const AttentionSizes& n, std::span<const double> dy, std::span<const double> q,
    std::span<const double> k, std::span<const double> v, std::span<const std::int32_t> first,
    std::span<const std::int32_t> last, double scale, double cap = 0,
    std::span<const double> bias = {}) {
  QkvGradients gradients{std::vector<double>(n.queries()), std::vector<double>(n.keys()),
                         std::vector<double>(n.keys())};
  for (std::size_t t = 0; t < n.T; ++t) {
    for (std::size_t h = 0; h < n.H; ++h) {
      const std::size_t at = (t * n.H + h) * n.E;
      const auto begin = static_cast<std::size_t>(first[t]);
      double log_sum_exp = 0;
      const auto p = attention_weights(n, q, k, t, h, begin, static_cast<std::size_t>(last[t]),
                                       scale, cap, log_sum_exp, bias);
      std::vector<double> dp(p.size());
      double mean = 0;
      for (std::size_t i = 0; i < p.size(); ++i) {
        const std::size_t key = ((begin + i) * n.G + h / (n.H / n.G)) * n.E;
        for (std::size_t e = 0; e < n.E; ++e) dp[i] += dy[at + e] * v[key + e];
        mean += p[i] * dp[i];
      }
      for (std::size_t i = 0; i < p.size(); ++i) {
        const std::size_t key = ((begin + i) * n.G + h / (n.H / n.G)) * n.E;
        const double ds =
            scale * p[i] * (dp[i] - mean) * slope_of(log_sum_exp + std::log(p[i]), cap);
        for (std::size_t e = 0; e < n.E; ++e) {
          gradients.dq[at + e] += ds * k[key + e];
          gradients.dk[key + e] += ds * q[at + e];
          gradients.dv[key + e] += p[i] * dy[at + e];
        }
      }
    }
  }
  return gradients;
}

}  // namespace clora::test
