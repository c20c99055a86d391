// sgd with momentum, as PyTorch computes it (torch.optim.SGD), over one flat buffer of parameters,
// with clipping by the global norm.
//
//   norm = sqrt(sum g^2);  g *= min(1, clip_norm / (norm + 1e-6)) if clip_norm > 0
//   g += weight_decay p;  m = beta1 m + g
//   p -= learning_rate * (NESTEROV ? g + beta1 m : m)
//
// Shapes  p, m, g [n], settings [8] (UpdateSettings; beta1 is the momentum), partials [groups of
//         gradient_square_sums], grad_norm [1]; with GROUPED the rates of flat_update.clh
// Types   f32, aligned to 16 bytes
// Work    gradient_square_sums is in gradient_norm.clh, sgd_update in flat_update.clh
// Local   2 GROUP floats
// Cost    square sums n reads; update 3 n reads and 2 n writes; 12 flops per element
// Numerics  If g is not finite, elements are updated with what the formula yields.
//! clc: build GROUP=256 GROUPED={0,1} NESTEROV={0,1}
//! clc: budget on gfx90a registers<=64 spills=0
#ifndef GROUP
#error "GROUP: work-items of a group, a power of two"
#endif

#include "optimizers/sgd_formula.clh"
#define UPDATE_KERNEL sgd_update
#define STATES 1
#define UPDATE(p, m, unused, grad, rates) SGD_UPDATE(p, m, grad, rates)
#include "optimizers/flat_update.clh"
