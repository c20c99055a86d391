// What the updates of optimizers have in common: the settings of a step, the rates of groups of
// parameters, and the tensors of the optimizers with one value of state per parameter.
//
// Each op that updates parameters also clips the gradients by their global norm (Pascanu et al.,
// 2013):
//   norm = sqrt(sum g^2);  g *= min(1, clip_norm / (norm + 1e-6)) if clip_norm > 0
#pragma once

#include <cstdint>

#include "clora/runtime/memory/tensor.hpp"

namespace clora {

// The values that change from step to step; on the device they are f32 [8] in this order. An
// optimizer reads those that its formula names. Compute the corrections in double from the f32
// betas: the rounding of 1 - beta then cancels.
struct UpdateSettings {
  float learning_rate = 0;
  float beta1 = 0.9F;
  float beta2 = 0.999F;
  float epsilon = 1e-8F;
  float weight_decay = 0;
  float clip_norm = 0;         // 0: no clipping
  float bias_correction1 = 1;  // 1 - beta1^step, computed in double by the host
  float bias_correction2 = 1;  // 1 - beta2^step
};
static_assert(sizeof(UpdateSettings) == 8 * sizeof(float));

// Each parameter belongs to the group of its block of kRateBlock parameters.
inline constexpr std::int64_t kRateBlock = 64;
constexpr std::int64_t rate_blocks(std::int64_t n) { return (n + kRateBlock - 1) / kRateBlock; }

// Multipliers of the learning rate and the weight decay of groups of parameters. Empty tensors: all
// are 1.
struct ParameterRates {
  Tensor block_groups;  // u8 [rate_blocks(n)], each a row of group_rates
  Tensor group_rates;   // f32 [groups, 2]
  bool empty() const noexcept { return group_rates.empty(); }
};

// The tensors of an optimizer with one value of state per parameter. REQUIRES: no two overlap.
struct MomentumTensors {
  Tensor parameters;  // f32 [n], updated
  Tensor momentum;    // f32 [n], updated; 0 before the first step
  Tensor gradients;   // f32 [n]
  Tensor settings;    // f32 [8]: UpdateSettings
  ParameterRates rates = {};
};

}  // namespace clora
