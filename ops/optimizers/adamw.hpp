// adamw (Loshchilov and Hutter, 2019) over one flat buffer of parameters, with clipping by the
// global norm (Pascanu et al., 2013):
//   norm = sqrt(sum g^2);  g *= min(1, clip_norm / (norm + 1e-6)) if clip_norm > 0
//   m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g^2
//   p -= learning_rate * (weight_decay p +
//                         (m / (1 - beta1^step)) / (sqrt(v / (1 - beta2^step)) + epsilon))
#pragma once

#include "clora/ops/optimizers/parameter_update.hpp"
#include "clora/runtime/commands/batch.hpp"

namespace clora {

struct AdamwTensors {
  Tensor parameters;     // [n], updated
  Tensor first_moment;   // [n], updated
  Tensor second_moment;  // [n], updated
  Tensor gradients;      // [n]
  Tensor settings;       // f32 [8]: UpdateSettings
  ParameterRates rates = {};
  // f32 [k], whose sum is the square of the norm: for parameters that are clipped with others.
  // Empty: the norm is that of these gradients.
  Tensor square_sums = {};
};

// Updates the tensors and writes the norm before clipping to grad_norm [1], accurate to a few ulp
// for any n. Deterministic. A gradient that is not finite makes grad_norm not finite and is applied
// as computed: check the loss and the norm before keeping the parameters.
// REQUIRES: no two tensors overlap.
void record_adamw(Batch& batch, const AdamwTensors& tensors, const Tensor& grad_norm);

Cost adamw_cost(std::int64_t parameters);

}  // namespace clora
