// adamw over one flat buffer of parameters, with clipping by the global norm.
//
//   norm = sqrt(sum g^2);  g *= min(1, clip_norm / (norm + 1e-6)) if clip_norm > 0
//   m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g^2
//   p -= learning_rate * (weight_decay p + (m / correction1) / (sqrt(v / correction2) + epsilon))
//
// Shapes  p, m, v, g [n], settings [8] (UpdateSettings), partials [groups of gradient_square_sums],
//         grad_norm [1]; with GROUPED the rates of flat_update.clh
// Types   f32, aligned to 16 bytes
// Work    gradient_square_sums is in gradient_norm.clh, adamw_update in flat_update.clh
// Local   2 GROUP floats
// Cost    square sums n reads; update 4 n reads and 3 n writes; 16 flops per element
// Numerics  squares are rounded once and their sums are compensated: the norm is within a few ulp.
//         If g is not finite, elements are updated with what the formula yields.
//! clc: build GROUP=256 GROUPED={0,1}
//! clc: budget on gfx90a registers<=64 spills=0
#ifndef GROUP
#error "GROUP: work-items of a group, a power of two"
#endif

#include "optimizers/adamw_formula.clh"
#define UPDATE_KERNEL adamw_update
#define STATES 2
#define UPDATE(p, m, v, grad, rates) ADAMW_UPDATE(p, m, v, grad, rates)
#include "optimizers/flat_update.clh"
