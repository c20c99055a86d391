// lion, sgd and the iteration of muon in double: naive loops, for tests.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <vector>

#include "clora/ops/optimizers/parameter_update.hpp"

namespace clora::reference {

struct MomentumState {
  std::vector<double> parameters, momentum;
};

inline double clip_of(std::span<const double> gradients, const UpdateSettings& settings) {
  double squares = 0;
  for (const double g : gradients) squares += g * g;
  const double limit = settings.clip_norm;
  return limit > 0 ? std::min(1.0, limit / (std::sqrt(squares) + 1e-6)) : 1;
}

inline void lion(MomentumState& state, std::span<const double> gradients,
                 const UpdateSettings& settings) {
  const double clip = clip_of(gradients, settings);
  const double beta1 = settings.beta1, beta2 = settings.beta2;
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    double& p = state.parameters[i];
    double& m = state.momentum[i];
    const double g = gradients[i] * clip;
    const double c = beta1 * m + (1 - beta1) * g;
    const double sign = c > 0 ? 1 : c < 0 ? -1 : 0;
    p -= settings.learning_rate * (sign + settings.weight_decay * p);
    m = beta2 * m + (1 - beta2) * g;
  }
}

inline void sgd(MomentumState& state, std::span<const double> gradients,
                const UpdateSettings& settings, bool nesterov) {
  const double clip = clip_of(gradients, settings);
  const double momentum = settings.beta1;
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    double& p = state.parameters[i];
    double& m = state.momentum[i];
    const double g = gradients[i] * clip + settings.weight_decay * p;
    m = momentum * m + g;
    p -= settings.learning_rate * (nesterov ? g + momentum * m : m);
  }
}

// Newton-Schulz as Keller Jordan writes it: x [rows, columns] itself is multiplied in each step.
inline std::vector<double> newton_schulz(std::vector<double> x, std::size_t rows,
                                         std::size_t columns) {
  const auto transposed = [](const std::vector<double>& in, std::size_t r, std::size_t c) {
    std::vector<double> out(in.size());
    for (std::size_t i = 0; i < r; ++i) {
      for (std::size_t j = 0; j < c; ++j) out[j * r + i] = in[i * c + j];
    }
    return out;
  };
  if (rows > columns) {
    return transposed(newton_schulz(transposed(x, rows, columns), columns, rows), columns, rows);
  }
  const auto multiply = [](const std::vector<double>& a, const std::vector<double>& b,
                           std::size_t n, std::size_t inner, std::size_t m) {
    std::vector<double> out(n * m);
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t k = 0; k < inner; ++k) {
        for (std::size_t j = 0; j < m; ++j) out[i * m + j] += a[i * inner + k] * b[k * m + j];
      }
    }
    return out;
  };
  double squares = 0;
  for (const double v : x) squares += v * v;
  for (double& v : x) v /= std::max(std::sqrt(squares), 1e-7);
  for (int step = 0; step < 5; ++step) {
    const std::vector<double> gram = multiply(x, transposed(x, rows, columns), rows, columns, rows);
    std::vector<double> factor = multiply(gram, gram, rows, rows, rows);
    for (std::size_t i = 0; i < factor.size(); ++i) {
      factor[i] = 2.0315 * factor[i] - 4.775 * gram[i] + (i % (rows + 1) == 0 ? 3.4445 : 0);
    }
    x = multiply(factor, x, rows, rows, columns);
  }
  return x;
}

}  // namespace clora::reference
