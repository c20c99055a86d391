// adamw over one flat buffer of parameters, with clipping by the global norm.
//
//   norm = sqrt(sum g^2);  g *= min(1, clip_norm / (norm + 1e-6)) if clip_norm > 0
//   m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g^2
//   p -= learning_rate * (weight_decay p + (m / correction1) / (sqrt(v / correction2) + epsilon))
//
// Shapes  p, m, v, g [n], settings [8] (AdamwSettings of ops/adamw.hpp), partials [groups of
//         adamw_square_sums], grad_norm [1]
// Types   f32, aligned to 16 bytes
// Work    both kernels: item i of the grid owns the quads of elements i, i + items of the grid,
//         ..., and one of the n % 4 elements past the last full quad
//         adamw_square_sums is in adamw_norm.clh
//         adamw_update: every group adds all partials in the same order, so one launch suffices;
//         group 0 writes grad_norm
// Local   2 GROUP floats
// Cost    square sums n reads; update 4 n reads and 3 n writes; 16 flops per element
// Numerics  squares are rounded once and their sums are compensated: the norm is within a few ulp.
//         If g is not finite, elements are updated with what the formula yields.
//! clc: build GROUP=256
//! clc: budget on gfx90a registers<=64 spills=0
#ifndef GROUP
#error "GROUP: work-items of a group, a power of two"
#endif

#include "adamw_norm.clh"
#include "adamw_settings.clh"

__attribute__((reqd_work_group_size(GROUP, 1, 1)))
__kernel void adamw_update(__global float* p, __global float* m, __global float* v,
                           __global float* grad_norm, __global const float* g,
                           __global const float* settings, __global const float* partials,
                           int partial_count, long n) {
  __local float2 scratch[GROUP];
  const float norm = adamw_norm(partials, partial_count, scratch);
  if (get_global_id(0) == 0) grad_norm[0] = norm;
  const float clip = clip_factor(norm, settings);
  EACH_QUAD {
    const float4 grad = ((__global const float4*)g)[i] * clip;
    float4 parameter = ((__global float4*)p)[i];
    float4 first = ((__global float4*)m)[i];
    float4 second = ((__global float4*)v)[i];
    ADAMW_UPDATE(parameter, first, second, grad)
    ((__global float4*)p)[i] = parameter;
    ((__global float4*)m)[i] = first;
    ((__global float4*)v)[i] = second;
  }
  LAST_ELEMENT(i) {
    const float grad = g[i] * clip;
    ADAMW_UPDATE(p[i], m[i], v[i], grad)
  }
}
