// sgd with momentum (Polyak, 1964; Nesterov, 1983) as torch.optim.SGD computes it, over one flat
// buffer of parameters, with clipping by the global norm:
//   norm = sqrt(sum g^2);  g *= min(1, clip_norm / (norm + 1e-6)) if clip_norm > 0
//   g += weight_decay p;  m = beta1 m + g
//   p -= learning_rate * m, or with Nesterov's momentum p -= learning_rate * (g + beta1 m)
// beta1 of the settings is the momentum; 0 is plain gradient descent.
#pragma once

#include "clora/ops/optimizers/parameter_update.hpp"
#include "clora/runtime/commands/batch.hpp"

namespace clora {

enum class Nesterov { no, yes };

// Updates parameters and momentum and writes the norm before clipping to grad_norm [1], as
// record_adamw() does. Deterministic.
void record_sgd(Batch& batch, const MomentumTensors& tensors, Nesterov nesterov,
                const Tensor& grad_norm);

Cost sgd_cost(std::int64_t parameters);

}  // namespace clora
