// adamw in double: naive loops, for tests and benches.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <vector>

#include "clora/ops/optimizers/adamw.hpp"

namespace clora::reference {

struct AdamwState {
  std::vector<double> parameters, first_moment, second_moment;
};

// Settings of a step, from 1.
inline UpdateSettings settings_of(int step, float clip_norm = 0) {
  UpdateSettings settings{.learning_rate = 2e-2F, .weight_decay = 0.1F, .clip_norm = clip_norm};
  settings.bias_correction1 = static_cast<float>(1 - std::pow(double{settings.beta1}, step));
  settings.bias_correction2 = static_cast<float>(1 - std::pow(double{settings.beta2}, step));
  return settings;
}

// One step; returns the norm before clipping. The settings keep their f32 values.
inline double adamw(AdamwState& state, std::span<const double> gradients,
                    const UpdateSettings& settings) {
  double squares = 0;
  for (const double g : gradients) squares += g * g;
  const double norm = std::sqrt(squares);
  const double limit = settings.clip_norm;
  const double clip = limit > 0 ? std::min(1.0, limit / (norm + 1e-6)) : 1;
  const double beta1 = settings.beta1;
  const double beta2 = settings.beta2;
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    double& p = state.parameters[i];
    double& m = state.first_moment[i];
    double& v = state.second_moment[i];
    const double g = gradients[i] * clip;
    m = beta1 * m + (1 - beta1) * g;
    v = beta2 * v + (1 - beta2) * g * g;
    const double scale = std::sqrt(v / settings.bias_correction2) + settings.epsilon;
    p -= settings.learning_rate *
         (settings.weight_decay * p + m / settings.bias_correction1 / scale);
  }
  return norm;
}

}  // namespace clora::reference
