// sgd on CPU devices: the formulas of sgd.cl in explicit float16 vectors.
//
//   norm = sqrt(sum g^2);  g *= min(1, clip_norm / (norm + 1e-6)) if clip_norm > 0
//   g += weight_decay p;  m = beta1 m + g
//   p -= learning_rate * (NESTEROV ? g + beta1 m : m)
//
// Shapes  p, m, g [n], settings [8], partials [groups], grad_norm [1]; with GROUPED the rates of
//         flat_update_cpu.clh
// Types   f32
// Work    gradient_square_sums is in gradient_norm_cpu.clh, sgd_update in flat_update_cpu.clh
// Local   none
// Cost    square sums n reads; update 3 n reads and 2 n writes; memory-bound
// Numerics  as sgd.cl.
//! clc: build on cpu: GROUPED={0,1} NESTEROV={0,1}
#include "optimizers/sgd_formula.clh"
#define UPDATE_KERNEL sgd_update
#define STATES 1
#define UPDATE(p, m, unused, grad, rates) SGD_UPDATE(p, m, grad, rates)
#include "optimizers/flat_update_cpu.clh"
