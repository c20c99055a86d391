// References of ops/experts: the choice of experts, products over them, and their combination, with
// plain loops in double.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace clora::reference {

// The experts of one row and their weights.
struct RoutedRow {
  std::vector<std::size_t> ids;
  std::vector<double> weights;
};

inline RoutedRow route_row(std::span<const double> logits, std::size_t used, bool normalises) {
  RoutedRow row;
  row.ids.resize(logits.size());
  for (std::size_t i = 0; i < logits.size(); ++i) row.ids[i] = i;
  std::ranges::stable_sort(row.ids, std::greater<>(), [&](std::size_t i) { return logits[i]; });
  row.ids.resize(used);
  const double row_max = *std::ranges::max_element(logits);
  double all = 0, chosen = 0;
  for (const double logit : logits) all += std::exp(logit - row_max);
  for (const std::size_t id : row.ids) {
    row.weights.push_back(std::exp(logits[id] - row_max) / all);
    chosen += row.weights.back();
  }
  for (double& weight : row.weights) weight /= normalises ? chosen : 1;
  return row;
}

// How many rows of logits [rows, experts] choose each expert.
inline std::vector<double> load_of_experts(std::span<const double> logits, std::size_t experts,
                                           std::size_t used) {
  std::vector<double> load(experts);
  for (std::size_t at = 0; at < logits.size(); at += experts) {
    for (const std::size_t id : route_row(logits.subspan(at, experts), used, false).ids) ++load[id];
  }
  return load;
}

// experts * the sum over experts of load / rows * their mean probability: of the logits [rows,
// experts] of all layers.
inline double load_balance_loss(std::span<const double> logits, std::span<const double> load) {
  const std::size_t experts = load.size();
  const double rows = static_cast<double>(logits.size()) / static_cast<double>(experts);
  double loss = 0;
  for (std::size_t at = 0; at < logits.size(); at += experts) {
    const RoutedRow row = route_row(logits.subspan(at, experts), experts, false);
    for (std::size_t i = 0; i < experts; ++i) loss += load[row.ids[i]] * row.weights[i];
  }
  return loss * static_cast<double>(experts) / (rows * rows);
}

// y [N] = x [K] w [N, K]^T, or with `transposed` x w [K, N].
inline std::vector<double> product_of_row(std::span<const double> x, std::span<const double> w,
                                          bool transposed) {
  const std::size_t k = x.size(), n = w.size() / k;
  std::vector<double> y(n);
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < k; ++j) y[i] += x[j] * (transposed ? w[j * n + i] : w[i * k + j]);
  }
  return y;
}

}  // namespace clora::reference
