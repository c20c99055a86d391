// attention_backward_begin_matrix: writes what the backward kernels on matrix units read of each
// query and each key.
//
//   stats[h, 0, t] = log_sum_exp[t, h] in units of log 2      stats[h, 1, t] = dy[t, h] . y[t, h]
//   past[k] = the number of rows t with first[t] <= k: the rows k .. past[k] - 1 attend to key k
// Shapes  y, dy [T, H, E]; log_sum_exp [T, H]; first [T] i32, non-decreasing, first[t] <= t; P = T
//         rounded up to 128; stats [H, 2, P], zero from T on; past [T] i32; E = HEAD_DIM, a
//         multiple of 16
// Types   y of -D Y_TYPE, dy of DY_TYPE: f32, bf16 or f16; else f32
// Work    TEAM items own a row of one head; the first T items of the grid a key
// Local   GROUP floats
// Cost    reads y and dy
// Numerics sums in f32, in a fixed order
//! clc: build GROUP=128 HEAD_DIM={64,96} Y_TYPE={f32,bf16,f16} DY_TYPE={f32,bf16,f16}
//! clc: build on mma: USE_PTX GROUP=128 HEAD_DIM=64 Y_TYPE=bf16 DY_TYPE=bf16
#define VEC_SIZE 4
#include "activations.clh"

#define TEAM 8
#define LOG2_E 1.44269504f

// The number of rows whose first key is at most k. REQUIRES: row k is one of them.
int rows_up_to(__global const int* first, int k, int T) {
  int attends = k, past = T;
  while (past - attends > 1) {
    const int middle = (attends + past) / 2;
    if (first[middle] <= k) {
      attends = middle;
    } else {
      past = middle;
    }
  }
  return past;
}

__attribute__((reqd_work_group_size(GROUP, 1, 1))) __kernel void attention_backward_begin_matrix(
    __global float* stats, __global int* past, __global const STORED(Y_TYPE)* y,
    __global const STORED(DY_TYPE)* dy, __global const float* log_sum_exp,
    __global const int* first, int T, int H, int P) {
  __local float parts[GROUP];
  const int id = get_global_id(0), item = get_local_id(0);
  if (id < T) past[id] = rows_up_to(first, id, T);
  const int row = id / TEAM;  // of [P, H]
  float4 sum = 0.0f;
  if (row / H < T) {
    const size_t at = (size_t)row * HEAD_DIM;
    for (int e = item % TEAM * 4; e < HEAD_DIM; e += TEAM * 4) {
      sum = fma(LOAD_VEC(Y_TYPE, y + at + e, 0), LOAD_VEC(DY_TYPE, dy + at + e, 0), sum);
    }
  }
  parts[item] = (sum.x + sum.y) + (sum.z + sum.w);
  barrier(CLK_LOCAL_MEM_FENCE);  // the parts of all items are there
  if (item % TEAM != 0 || row / H >= P) return;
  float dot = 0.0f;
  for (int i = 0; i < TEAM; ++i) dot += parts[item + i];
  __global float* const to = stats + (size_t)(row % H) * 2 * P + row / H;
  to[0] = row / H < T ? log_sum_exp[row] * LOG2_E : 0.0f;
  to[P] = dot;
}
