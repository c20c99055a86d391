// adamw on CPU devices: the formulas of adamw.cl in explicit float16 vectors.
//
//   norm = sqrt(sum g^2);  g *= min(1, clip_norm / (norm + 1e-6)) if clip_norm > 0
//   m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g^2
//   p -= learning_rate * (weight_decay p + (m / correction1) / (sqrt(v / correction2) + epsilon))
//
// Shapes  p, m, v, g [n], settings [8], partials [groups], grad_norm [1]; with GROUPED the rates of
//         flat_update_cpu.clh
// Types   f32
// Work    gradient_square_sums is in gradient_norm_cpu.clh, adamw_update in flat_update_cpu.clh
// Local   none
// Cost    square sums n reads; update 4 n reads and 3 n writes; memory-bound
// Numerics  as adamw.cl: compensated sums in 16 lanes.
//! clc: build on cpu: GROUPED={0,1}
#include "optimizers/adamw_formula.clh"
#define UPDATE_KERNEL adamw_update
#define STATES 2
#define UPDATE(p, m, v, grad, rates) ADAMW_UPDATE(p, m, v, grad, rates)
#include "optimizers/flat_update_cpu.clh"
