// lion (Chen et al., 2023, arXiv:2302.06675) over one flat buffer of parameters, with clipping by
// the global norm.
//
//   norm = sqrt(sum g^2);  g *= min(1, clip_norm / (norm + 1e-6)) if clip_norm > 0
//   p -= learning_rate * (weight_decay p + sign(beta1 m + (1 - beta1) g))
//   m = beta2 m + (1 - beta2) g
//
// Shapes  p, m, g [n], settings [8] (UpdateSettings), partials [groups of gradient_square_sums],
//         grad_norm [1]; with GROUPED the rates of flat_update.clh
// Types   f32, aligned to 16 bytes
// Work    gradient_square_sums is in gradient_norm.clh, lion_update in flat_update.clh
// Local   2 GROUP floats
// Cost    square sums n reads; update 3 n reads and 2 n writes; 12 flops per element
// Numerics  sign(0) is 0, and sign(NaN) is 0: a gradient that is not finite shows in grad_norm.
//! clc: build GROUP=256 GROUPED={0,1}
//! clc: budget on gfx90a registers<=64 spills=0
#ifndef GROUP
#error "GROUP: work-items of a group, a power of two"
#endif

#include "optimizers/lion_formula.clh"
#define UPDATE_KERNEL lion_update
#define STATES 1
#define UPDATE(p, m, unused, grad, rates) LION_UPDATE(p, m, grad, rates)
#include "optimizers/flat_update.clh"
