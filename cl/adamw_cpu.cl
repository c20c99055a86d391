// adamw on CPU devices: the formulas of adamw.cl in explicit float16 vectors.
//
//   norm = sqrt(sum g^2);  g *= min(1, clip_norm / (norm + 1e-6)) if clip_norm > 0
//   m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g^2
//   p -= learning_rate * (weight_decay p + (m / correction1) / (sqrt(v / correction2) + epsilon))
//
// Shapes  p, m, v, g [n], settings [8], partials [groups], grad_norm [1]
// Types   f32
// Work    a group is one item and owns a block of full vectors of 16; the last group also owns the
//         tail. adamw_square_sums is in adamw_norm_cpu.clh; in adamw_update every group adds the
//         partials and group 0 writes grad_norm
// Local   none
// Cost    square sums n reads; update 4 n reads and 3 n writes; memory-bound
// Numerics  as adamw.cl: compensated sums in 16 lanes.
//! clc: build on cpu:
#include "adamw_norm_cpu.clh"
#include "adamw_settings.clh"

// One vector of parameters with its moments.
typedef struct {
  float16 p, m, v;
} Parameters16;

Parameters16 updated(Parameters16 x, float16 g, __global const float* settings) {
  x.m = settings[BETA1] * x.m + (1.0f - settings[BETA1]) * g;
  x.v = settings[BETA2] * x.v + (1.0f - settings[BETA2]) * g * g;
  const float16 scale = sqrt(x.v / settings[CORRECTION2]) + settings[EPSILON];
  const float16 step = x.m / settings[CORRECTION1] / scale + settings[WEIGHT_DECAY] * x.p;
  x.p -= settings[LEARNING_RATE] * step;
  return x;
}

CPU_KERNEL adamw_update(__global float* p, __global float* m, __global float* v,
                        __global float* grad_norm, __global const float* g,
                        __global const float* settings, __global const float* partials,
                        int partial_count, long n) {
  const float norm = adamw_norm(partials, partial_count);
  const long group = (long)get_group_id(0);
  if (group == 0) grad_norm[0] = norm;
  const float clip = clip_factor(norm, settings);
  const long end = block_begin(group + 1, (long)get_num_groups(0), n);
  long i = block_begin(group, (long)get_num_groups(0), n);
  for (; i + 16 <= end; i += 16) {
    Parameters16 x = {vload16(0, p + i), vload16(0, m + i), vload16(0, v + i)};
    x = updated(x, vload16(0, g + i) * clip, settings);
    vstore16(x.p, 0, p + i);
    vstore16(x.m, 0, m + i);
    vstore16(x.v, 0, v + i);
  }
  if (i < end) {
    const int count = (int)(end - i);
    Parameters16 x = {load16_tail(p + i, count, 0.0f), load16_tail(m + i, count, 0.0f),
                      load16_tail(v + i, count, 0.0f)};
    x = updated(x, load16_tail(g + i, count, 0.0f) * clip, settings);
    store16_tail(x.p, p + i, count);
    store16_tail(x.m, m + i, count);
    store16_tail(x.v, v + i, count);
  }
}
