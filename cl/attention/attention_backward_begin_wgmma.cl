// attention_backward_begin_wgmma: writes what cl/attention/attention_backward_wgmma.cl reads: stats,
// steps and plan, with its counters at zero.
//
// Shapes  y, dy [T, H, E], log_sum_exp [T, H], first [T] i32; order: attention_order.cl. P = T
//         rounded up to 128. stats [H, P / STEP, 3, STEP]: log_sum_exp in units of log 2 (infinite
//         past T, so weights are zero), dot = dy . y, and first as i32 (INT_MAX past T); steps [P /
//         128] i32: the number of steps with rows that attend to the keys 128 n ..; plan i32:
//         counters [H * P / STEP + 1], then [P / 128, P / STEP]; E = HEAD_DIM of 64 or 128
// Types   y of -D Y_TYPE, dy of DY_TYPE: f32, bf16 or f16
// Work    eight items own one of the P rows of one head
// Local   none
// Cost    reads y and dy
// Numerics sums in f32
//! clc: build on wgmma: HEAD_DIM={64,128} Y_TYPE={f32,bf16,f16} DY_TYPE={f32,bf16,f16}
#define USE_PTX
#define VEC_SIZE 8
#include "activations.clh"
#include "attention/attention_backward_wgmma.clh"
#include "hopper/hopper_lanes.clh"

#define LOG2_E 1.44269504f

int planned(__global const int* first, __global const int* positions, int keys, int m, int T) {
  const int t0 = m * STEP, key = keys * KEYS, lowest = first[t0] / KEYS, own = t0 / KEYS;
  if (keys < lowest || keys > own) return 0;
  int before = 0;
  for (int other = lowest; other <= own; ++other) before += positions[other] < positions[keys];
  const int end = t0 + STEP;
  return before * FLAGS + (before == own - lowest ? IS_LAST : 0) +
         (t0 < key + KEYS - 1 || end > T || first[end - 1] > key ? IS_MASKED : 0);
}

__kernel void attention_backward_begin_wgmma(__global float* stats, __global int* steps,
                                             __global int* plan, __global const STORED(Y_TYPE)* y,
                                             __global const STORED(DY_TYPE)* dy,
                                             __global const float* log_sum_exp,
                                             __global const int* first,
                                             __global const int* order, int T, int H, int P) {
  const int item = get_global_id(0), t = item / 8, h = get_global_id(1), all = P / STEP;
  // clc: allow index-overflow a plan's words are few: heads x positions / 128
  if (item < all) plan[h * all + item] = 0;
  // clc: allow index-overflow as above
  if (h == 0 && item == 0) plan[H * all] = 0;
  if (h == 0 && item < P / KEYS) {
    int sees = item * KEYS, past = T;  // row `sees` attends to the block, row `past` does not
    while (past - sees > 1) {
      const int middle = (sees + past) / 2;
      if (first[middle] < (item + 1) * KEYS) {
        sees = middle;
      } else {
        past = middle;
      }
    }
    steps[item] = (sees - item * KEYS) / STEP + 1;
  }
  for (int i = h * 8 * P + item; i < P / KEYS * all; i += 8 * P * H) {
    if (i % all * STEP >= T) continue;
    plan[COUNTERS(H, P) + i] = planned(first, order + 2 * (P / KEYS), i / all, i % all, T);
  }
  float sum = 0.0f;
  if (t < T) {
    const size_t at = ((size_t)t * H + h) * HEAD_DIM + item % 8 * 8;
    UNROLL for (int b = 0; b < BOXES; ++b) {
      const float8 products =
          LOAD_VEC(Y_TYPE, y + at + 64 * b, 0) * LOAD_VEC(DY_TYPE, dy + at + 64 * b, 0);
      const float4 sums = products.lo + products.hi;
      sum += (sums.x + sums.y) + (sums.z + sums.w);
    }
  }
  sum = row_sum(sum);
  sum += as_float(of_lane_xor_4(as_uint(sum)));
  if (item % 8 == 0) {
    __global float* to = stats + ((size_t)h * P + t - t % STEP) * 3 + t % STEP;
    to[0] = t < T ? log_sum_exp[(size_t)t * H + h] * LOG2_E : INFINITY;
    to[STEP] = sum;
    ((__global int*)to)[2 * STEP] = t < T ? first[t] : INT_MAX;
  }
}
