// lion on CPU devices: the formulas of lion.cl in explicit float16 vectors.
//
//   norm = sqrt(sum g^2);  g *= min(1, clip_norm / (norm + 1e-6)) if clip_norm > 0
//   p -= learning_rate * (weight_decay p + sign(beta1 m + (1 - beta1) g))
//   m = beta2 m + (1 - beta2) g
//
// Shapes  p, m, g [n], settings [8], partials [groups], grad_norm [1]; with GROUPED the rates of
//         flat_update_cpu.clh
// Types   f32
// Work    gradient_square_sums is in gradient_norm_cpu.clh, lion_update in flat_update_cpu.clh
// Local   none
// Cost    square sums n reads; update 3 n reads and 2 n writes; memory-bound
// Numerics  as lion.cl.
//! clc: build on cpu: GROUPED={0,1}
#include "optimizers/lion_formula.clh"
#define UPDATE_KERNEL lion_update
#define STATES 1
#define UPDATE(p, m, unused, grad, rates) LION_UPDATE(p, m, grad, rates)
#include "optimizers/flat_update_cpu.clh"
