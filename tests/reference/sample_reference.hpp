// sample in double with a full sort, and Philox2x32 in plain C++: for tests and benches.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "clora/ops/sample.hpp"

namespace clora::reference {

// Philox2x32 with 10 rounds (Salmon et al., 2011).
inline std::pair<std::uint32_t, std::uint32_t> philox2x32(std::uint32_t c0, std::uint32_t c1,
                                                          std::uint32_t key) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t product = std::uint64_t{0xD256D193U} * c0;
    c0 = static_cast<std::uint32_t>(product >> 32U) ^ key ^ c1;
    c1 = static_cast<std::uint32_t>(product);
    key += 0x9E3779B9U;
  }
  return {c0, c1};
}

inline double uniform_of(const SampleSettings& settings) {
  return static_cast<double>(philox2x32(settings.step, 0, settings.seed).first >> 8U) * 0x1p-24;
}

// Ids by rank: larger values first, lower ids first among equals.
inline std::vector<std::size_t> ranking(std::span<const double> values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order,
                           [&](std::size_t a, std::size_t b) { return values[a] > values[b]; });
  return order;
}

inline std::vector<double> penalised(std::span<const float> logits,
                                     std::span<const std::uint8_t> seen, double penalty) {
  std::vector<double> z(logits.begin(), logits.end());
  for (std::size_t v = 0; v < z.size(); ++v) {
    if (seen[v] != 0) z[v] = z[v] > 0 ? z[v] / penalty : z[v] * penalty;
  }
  return z;
}

// The probability with which each token is drawn. REQUIRES: temperature > 0.
inline std::vector<double> probabilities(std::span<const double> z,
                                         const SampleSettings& settings) {
  const auto order = ranking(z);
  std::vector<double> w(z.size());
  for (std::size_t v = 0; v < z.size(); ++v) {
    w[v] = std::exp((z[v] - z[order[0]]) / settings.temperature);
  }
  std::size_t kept = z.size();
  if (settings.top_k > 0) kept = std::min(kept, static_cast<std::size_t>(settings.top_k));
  if (settings.top_p < 1) {
    double all = 0;
    for (std::size_t r = 0; r < kept; ++r) all += w[order[r]];
    double sum = 0;
    std::size_t r = 0;
    do sum += w[order[r++]];
    while (r < kept && sum < settings.top_p * all);
    kept = r;
  }
  while (kept > 1 && w[order[kept - 1]] < settings.min_p) --kept;
  for (std::size_t r = kept; r < w.size(); ++r) w[order[r]] = 0;
  const double all = std::accumulate(w.begin(), w.end(), 0.0);
  for (double& x : w) x /= all;
  return w;
}

struct Draw {
  std::int32_t token;
  double margin;  // distance of the random number from the nearest end of the token's interval
};

inline Draw sample(std::span<const float> logits, std::span<const std::uint8_t> seen,
                   const SampleSettings& settings) {
  const auto z = penalised(logits, seen, settings.repetition_penalty);
  if (settings.temperature <= 0) return {static_cast<std::int32_t>(ranking(z)[0]), 1};
  const auto p = probabilities(z, settings);
  const double u = uniform_of(settings);
  double below = 0;
  std::size_t v = 0;
  while (v + 1 < p.size() && below + p[v] <= u) below += p[v++];
  return {static_cast<std::int32_t>(v), std::min(u - below, below + p[v] - u)};
}

}  // namespace clora::reference
