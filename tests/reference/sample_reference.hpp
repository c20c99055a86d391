// sample of one row in double with full sorts, and Philox2x32 in plain C++: for tests and benches.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
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

// What the state has for one row; empty: nothing.
struct SampleRowState {
  std::vector<std::uint32_t> counts = {};  // token_counts()
  std::vector<std::pair<std::int32_t, float>> biases = {};
  std::vector<std::uint32_t> mask = {};
};

// An excluded token.
constexpr double kExcluded = -std::numeric_limits<double>::infinity();

// Ids by rank: larger values first, lower ids first among equals. Without excluded ones.
inline std::vector<std::size_t> ranking(std::span<const double> values) {
  std::vector<std::pair<double, std::size_t>> keys;
  for (std::size_t v = 0; v < values.size(); ++v) {
    if (values[v] != kExcluded) keys.emplace_back(-values[v], v);
  }
  std::ranges::sort(keys);
  std::vector<std::size_t> order;
  for (const auto& key : keys) order.push_back(key.second);
  return order;
}

inline double penalised(double z, std::uint32_t count, const SampleSettings& s) {
  const std::uint32_t in_reply = count & 0x7fffffffU;
  if (count != 0) z = z > 0 ? z / s.repetition_penalty : z * s.repetition_penalty;
  if (in_reply != 0) z -= double{s.presence_penalty} + in_reply * double{s.frequency_penalty};
  return z;
}

// The logits after biases, penalties and mask.
inline std::vector<double> changed_logits(std::span<const float> logits,
                                          const SampleSettings& settings,
                                          const SampleRowState& state) {
  std::vector<double> z(logits.begin(), logits.end());
  std::vector<bool> excluded(z.size());
  for (const auto& [id, value] : state.biases) {
    z[static_cast<std::size_t>(id)] += double{value};
    if (std::isinf(value) && value < 0) excluded[static_cast<std::size_t>(id)] = true;
  }
  for (std::size_t v = 0; v < z.size(); ++v) {
    if (!state.counts.empty()) z[v] = penalised(z[v], state.counts[v], settings);
    const bool masked = !state.mask.empty() && (state.mask[v / 32] >> (v % 32) & 1U) == 0;
    if (masked || excluded[v]) z[v] = kExcluded;
  }
  return z;
}

// The first ids of `order` whose share of all their weights reaches `share`; at least one.
inline std::vector<std::size_t> shortest_prefix(std::vector<std::size_t> order,
                                                std::span<const double> w, double share) {
  double all = 0;
  for (const std::size_t v : order) all += w[v];
  double sum = 0;
  std::size_t kept = 0;
  do sum += w[order[kept++]];
  while (kept < order.size() && sum < share * all);
  order.resize(kept);
  return order;
}

// The tokens closest to the entropy in surprisal (Meister et al., 2023), by that distance.
inline std::vector<std::size_t> by_typicality(std::vector<std::size_t> order,
                                              std::span<const double> w) {
  double all = 0, entropy = 0;
  std::ranges::sort(order);  // so that ties keep the lower id first
  for (const std::size_t v : order) all += w[v];
  std::vector<double> surprisal(w.size());
  for (const std::size_t v : order) {
    if (w[v] == 0) continue;
    surprisal[v] = -std::log(w[v] / all);
    entropy += w[v] / all * surprisal[v];
  }
  std::erase_if(order, [&](std::size_t v) { return w[v] == 0; });
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) {
    return std::abs(surprisal[a] - entropy) < std::abs(surprisal[b] - entropy);
  });
  return order;
}

// The probability with which each token is drawn. REQUIRES: temperature > 0, and that a token is
// not excluded.
inline std::vector<double> probabilities(std::span<const double> z,
                                         const SampleSettings& settings) {
  auto kept = ranking(z);
  const double largest = z[kept[0]];
  std::vector<double> w(z.size());
  for (const std::size_t v : kept) w[v] = std::exp((z[v] - largest) / settings.temperature);
  if (settings.top_k > 0) {
    kept.resize(std::min(kept.size(), static_cast<std::size_t>(settings.top_k)));
  }
  if (settings.typical_p < 1) {
    kept = shortest_prefix(by_typicality(kept, w), w, settings.typical_p);
    std::ranges::sort(kept);
    std::ranges::stable_sort(kept, [&](std::size_t a, std::size_t b) { return z[a] > z[b]; });
  }
  if (settings.top_p < 1) kept = shortest_prefix(kept, w, settings.top_p);
  while (kept.size() > 1 && w[kept.back()] < settings.min_p * w[kept[0]]) kept.pop_back();
  std::vector<double> p(z.size());
  double all = 0;
  for (const std::size_t v : kept) all += w[v];
  for (const std::size_t v : kept) p[v] = w[v] / all;
  return p;
}

struct Draw {
  std::int32_t token;
  double margin;  // distance of the random number from the nearest end of the token's interval
};

// The draw in the order of (id mod 1024, id).
inline Draw drawn(std::span<const double> p, double u) {
  std::vector<std::size_t> order;
  for (std::size_t first = 0; first < std::min<std::size_t>(1024, p.size()); ++first) {
    for (std::size_t v = first; v < p.size(); v += 1024) {
      if (p[v] > 0) order.push_back(v);
    }
  }
  double below = 0;
  std::size_t i = 0;
  while (i + 1 < order.size() && below + p[order[i]] <= u) below += p[order[i++]];
  const double end = i + 1 < order.size() ? below + p[order[i]] : 2;
  const double begin = i > 0 ? below : -1;
  return {static_cast<std::int32_t>(order[i]), std::min(u - begin, end - u)};
}

// The margin is large if no random number decides. REQUIRES: logits that are not excluded are
// finite.
inline Draw sample(std::span<const float> logits, const SampleSettings& settings,
                   const SampleRowState& state = {}) {
  const auto z = changed_logits(logits, settings, state);
  const auto first = std::ranges::max_element(z);  // the first of equals
  if (*first == kExcluded) return {kNothingAllowed, 1};
  if (settings.temperature <= 0) return {static_cast<std::int32_t>(first - z.begin()), 1};
  return drawn(probabilities(z, settings), uniform_of(settings));
}

}  // namespace clora::reference
