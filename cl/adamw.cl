// adamw over one flat buffer of parameters, with clipping by the global norm.
//
//   norm = sqrt(sum g^2);  g *= min(1, clip_norm / (norm + 1e-6)) where clip_norm > 0
//   m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g^2
//   p -= learning_rate * (weight_decay p + (m / correction1) / (sqrt(v / correction2) + epsilon))
//
// Shapes  p, m, v, g [n], settings [8] (AdamwSettings of ops/adamw.hpp), partials [groups of
//         adamw_square_sums] at most GROUP, grad_norm [1]
// Types   f32
// Work    both kernels: item i of the grid owns elements i, i + items of the grid, ...
//         adamw_square_sums: group k leaves the sum of its squares in partials[k]
//         adamw_update: every group adds the partials up again, in the same order, so that one
//         launch suffices; group 0 writes grad_norm
// Local   2 GROUP floats
// Cost    square sums n reads; update 4 n reads and 3 n writes; 16 flops an element
// Numerics  squares are rounded once, their sums are compensated: the norm is right to a few ulp.
//         Elements are updated as computed where g is not finite.
#ifndef GROUP
#error "GROUP: work-items of a group, a power of two"
#endif

#include "adamw_settings.clh"
#include "group_reduce.clh"

__attribute__((reqd_work_group_size(GROUP, 1, 1)))
__kernel void adamw_square_sums(__global float* partials, __global const float* g, long n) {
  __local float2 scratch[GROUP];
  float sum = 0.0f;
  float lost = 0.0f;
  for (long i = (long)get_global_id(0); i < n; i += (long)get_global_size(0)) {
    add_compensated(&sum, &lost, g[i] * g[i]);
  }
  const float all = group_sum_compensated(sum, lost, scratch);
  if (get_local_id(0) == 0) partials[get_group_id(0)] = all;
}

__attribute__((reqd_work_group_size(GROUP, 1, 1)))
__kernel void adamw_update(__global float* p, __global float* m, __global float* v,
                           __global float* grad_norm, __global const float* g,
                           __global const float* settings, __global const float* partials,
                           int partial_count, long n) {
  __local float2 scratch[GROUP];
  const int item = (int)get_local_id(0);
  const float part = item < partial_count ? partials[item] : 0.0f;
  const float norm = sqrt(group_sum_compensated(part, 0.0f, scratch));
  if (get_global_id(0) == 0) grad_norm[0] = norm;
  const float clip = clip_factor(norm, settings);
  for (long i = (long)get_global_id(0); i < n; i += (long)get_global_size(0)) {
    const float slope = g[i] * clip;
    const float first = settings[BETA1] * m[i] + (1.0f - settings[BETA1]) * slope;
    const float second = settings[BETA2] * v[i] + (1.0f - settings[BETA2]) * slope * slope;
    m[i] = first;
    v[i] = second;
    const float scale = sqrt(second / settings[CORRECTION2]) + settings[EPSILON];
    const float step = first / settings[CORRECTION1] / scale + settings[WEIGHT_DECAY] * p[i];
    p[i] -= settings[LEARNING_RATE] * step;
  }
}
