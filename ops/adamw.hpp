// adamw (Loshchilov and Hutter, 2019) over one flat buffer of parameters, with clipping by the
// global norm (Pascanu et al., 2013):
//   norm = sqrt(sum g^2);  g *= min(1, clip_norm / (norm + 1e-6)) if clip_norm > 0
//   m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g^2
//   p -= learning_rate * (weight_decay p +
//                         (m / (1 - beta1^step)) / (sqrt(v / (1 - beta2^step)) + epsilon))
#pragma once

#include "clora/runtime/commands/batch.hpp"

namespace clora {

// The values that change from step to step; on the device they are f32 [8] in this order. Compute
// the corrections in double from the f32 betas: the rounding of 1 - beta then cancels.
struct AdamwSettings {
  float learning_rate = 0;
  float beta1 = 0.9F;
  float beta2 = 0.999F;
  float epsilon = 1e-8F;
  float weight_decay = 0;
  float clip_norm = 0;         // 0: no clipping
  float bias_correction1 = 1;  // 1 - beta1^step, computed in double by the host
  float bias_correction2 = 1;  // 1 - beta2^step
};
static_assert(sizeof(AdamwSettings) == 8 * sizeof(float));

struct AdamwTensors {
  Tensor parameters;     // [n], updated
  Tensor first_moment;   // [n], updated
  Tensor second_moment;  // [n], updated
  Tensor gradients;      // [n]
  Tensor settings;       // f32 [8]: AdamwSettings
};

// Updates the tensors and writes the norm before clipping to grad_norm [1], accurate to a few ulp
// for any n. Deterministic. A gradient that is not finite makes grad_norm not finite and is applied
// as computed: check the loss and the norm before keeping the parameters.
// REQUIRES: no two tensors overlap.
void record_adamw(Batch& batch, const AdamwTensors& tensors, const Tensor& grad_norm);

Cost adamw_cost(std::int64_t parameters);

}  // namespace clora
