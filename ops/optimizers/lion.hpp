// lion (Chen et al., 2023, arXiv:2302.06675) over one flat buffer of parameters, with clipping by
// the global norm:
//   norm = sqrt(sum g^2);  g *= min(1, clip_norm / (norm + 1e-6)) if clip_norm > 0
//   p -= learning_rate * (weight_decay p + sign(beta1 m + (1 - beta1) g))
//   m = beta2 m + (1 - beta2) g
// Every parameter moves by the learning rate, so that it is a third to a tenth of AdamW's.
#pragma once

#include "clora/ops/optimizers/parameter_update.hpp"
#include "clora/runtime/commands/batch.hpp"

namespace clora {

// Updates parameters and momentum and writes the norm before clipping to grad_norm [1], as
// record_adamw() does. Deterministic.
void record_lion(Batch& batch, const MomentumTensors& tensors, const Tensor& grad_norm);

Cost lion_cost(std::int64_t parameters);

}  // namespace clora
