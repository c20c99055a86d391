// attention, backward, portable, over packed rows (row t attends to keys first[t] .. last[t], and
// the rows that attend to key k are k .. or, if not causal, first[k] .. last[k]).
//   p[t, h, k] = exp(scale * q[t, h] . k[k, g] - log_sum_exp[t, h]),  g = h / (H / G)
//   ds[t, h, k] = scale * p * (dy[t, h] . v[k, g] - dot[t, h]),  dot = dy . y
//   dv[k, g] = sum_{h, t} p dy[t, h]      dk[k, g] = sum_{h, t} ds q[t, h]
//   dq[t, h] = sum_k ds k[k, g]
//
// Shapes  q, y, dy, dq [T, H, E]; k, v, dk, dv [T, G, E]; first, last [T] i32; log_sum_exp, dot [T, H]
// Types   q, k, v, y and dy of -D X_TYPE, dq, dk and dv of RESULT_TYPE: f32, bf16 or f16; all else
//         f32
// Work    attention_dots: an item owns one dot. attention_backward_keys: a work-group owns one row
//         and head of dk and dv, an item one query of a block and then every GROUP-th column.
//         attention_backward_queries: the same for one row and head of dq, over keys.
// Local   the owned rows [E], their sums [E], weights of a block [GROUP]
// Cost    14 E flops a (query, key) pair and head: scores are computed twice
// Numerics p from the forward's log_sum_exp; every sum in one fixed order. -D SOFT_CAP: scores are
//         capped (soft_cap.clh); -D BIAS: scores have a bias (attention_bias.clh), which is frozen
//! clc: build GROUP=64 X_TYPE={f32,bf16,f16} RESULT_TYPE={f32,f16}
//! clc: build GROUP=64 X_TYPE=f32 RESULT_TYPE=f32 SOFT_CAP=50.0f
//! clc: build GROUP=64 X_TYPE={f32,bf16} RESULT_TYPE=f32 BIAS
//! clc: budget on gfx90a registers<=64 spills=0
#include "attention/attention_bias.clh"
#include "attention/attention_problem.clh"
#include "elements.clh"
#include "soft_cap.clh"

#ifndef GROUP
#error "GROUP: work-items of a group"
#endif

__kernel void attention_dots(__global float* dot, __global const STORED(X_TYPE)* dy,
                             __global const STORED(X_TYPE)* y, int rows, int E) {
  const long row = get_global_id(0);
  if (row >= rows) return;
  float sum = 0.0f;
  for (int e = 0; e < E; ++e) {
    sum = fma(LOAD_ONE(X_TYPE, dy, row * E + e), LOAD_ONE(X_TYPE, y, row * E + e), sum);
  }
  dot[row] = sum;
}

__attribute__((reqd_work_group_size(GROUP, 1, 1))) __kernel void attention_backward_keys(
    __global STORED(RESULT_TYPE)* dk, __global STORED(RESULT_TYPE)* dv,
    __global const STORED(X_TYPE)* dy, __global const float* log_sum_exp, __global const float* dot,
    __global const STORED(X_TYPE)* q,
    __global const STORED(X_TYPE)* k, __global const STORED(X_TYPE)* v, __global const int* first,
    AttentionProblem problem, __local float* k_row, __local float* v_row, __local float* dk_sums,
    __local float* dv_sums BIAS_PARAMETERS) {
  const int T = problem.T, H = problem.H, G = problem.G, E = problem.E;
  __local float p[GROUP], ds[GROUP];
  const int g = get_group_id(1), item = get_local_id(0);
  const int key = get_group_id(0);
  const long row = ((long)key * G + g) * E;
  for (int e = item; e < E; e += GROUP) {
    k_row[e] = LOAD_ONE(X_TYPE, k, row + e);
    v_row[e] = LOAD_ONE(X_TYPE, v, row + e);
    dk_sums[e] = 0.0f;
    dv_sums[e] = 0.0f;
  }
  barrier(CLK_LOCAL_MEM_FENCE);  // every item reads the full rows

  // first is non-decreasing, so the key's readers end before the first row with first[row] > key.
  const int begin = problem.causal ? key : first[key];
  for (int block = begin; block < T && first[block] <= key; block += GROUP) {
    const int t = block + item;
    for (int h = g * (H / G); h < (g + 1) * (H / G); ++h) {
      p[item] = 0.0f;
      ds[item] = 0.0f;
      if (t < T && first[t] <= key) {
        const long at = (long)t * H + h;
        float score = 0.0f, dp = 0.0f;
        for (int e = 0; e < E; ++e) {
          score = fma(LOAD_ONE(X_TYPE, q, at * E + e), k_row[e], score);
          dp = fma(LOAD_ONE(X_TYPE, dy, at * E + e), v_row[e], dp);
        }
        CAP_SCORES(score, problem.scale);
        p[item] = exp(score * problem.scale - log_sum_exp[at] PLUS_BIAS(h, key, t));
        ds[item] = p[item] * (dp - dot[at]) * problem.scale;
        CAP_GRADIENTS(ds[item], score, problem.scale);
      }
      barrier(CLK_LOCAL_MEM_FENCE);  // every item reads all weights
      const int rows = min(GROUP, T - block);
      for (int e = item; e < E; e += GROUP) {
        for (int n = 0; n < rows; ++n) {
          const long from = ((long)(block + n) * H + h) * E + e;
          dk_sums[e] = fma(ds[n], LOAD_ONE(X_TYPE, q, from), dk_sums[e]);
          dv_sums[e] = fma(p[n], LOAD_ONE(X_TYPE, dy, from), dv_sums[e]);
        }
      }
      barrier(CLK_LOCAL_MEM_FENCE);  // the next head overwrites the weights
    }
  }
  for (int e = item; e < E; e += GROUP) {
    STORE_ONE(RESULT_TYPE, dk, row + e, dk_sums[e]);
    STORE_ONE(RESULT_TYPE, dv, row + e, dv_sums[e]);
  }
}

__attribute__((reqd_work_group_size(GROUP, 1, 1))) __kernel void attention_backward_queries(
    __global STORED(RESULT_TYPE)* dq, __global const STORED(X_TYPE)* dy,
    __global const float* log_sum_exp, __global const float* dot, __global const STORED(X_TYPE)* q,
    __global const STORED(X_TYPE)* k, __global const STORED(X_TYPE)* v, __global const int* first,
    __global const int* last, AttentionProblem problem,
    __local float* q_row, __local float* dy_row, __local float* sums BIAS_PARAMETERS) {
  const int H = problem.H, G = problem.G, E = problem.E;
  const float scale = problem.scale;
  __local float ds[GROUP];
  const int h = get_group_id(1), item = get_local_id(0);
  const int t = get_group_id(0);
  const long at = (long)t * H + h;
  const long k_step = (long)G * E;
  const long head = (long)(h / (H / G)) * E;
  for (int e = item; e < E; e += GROUP) {
    q_row[e] = LOAD_ONE(X_TYPE, q, at * E + e);
    dy_row[e] = LOAD_ONE(X_TYPE, dy, at * E + e);
    sums[e] = 0.0f;
  }
  barrier(CLK_LOCAL_MEM_FENCE);  // every item reads the full rows

  const int last_key = last[t];
  for (int block = first[t]; block <= last_key; block += GROUP) {
    const int key = block + item;
    ds[item] = 0.0f;
    if (key <= last_key) {
      const long from = key * k_step + head;
      float score = 0.0f, dp = 0.0f;
      for (int e = 0; e < E; ++e) {
        score = fma(q_row[e], LOAD_ONE(X_TYPE, k, from + e), score);
        dp = fma(dy_row[e], LOAD_ONE(X_TYPE, v, from + e), dp);
      }
      CAP_SCORES(score, scale);
      ds[item] = exp(score * scale - log_sum_exp[at] PLUS_BIAS(h, key, t)) * (dp - dot[at]) * scale;
      CAP_GRADIENTS(ds[item], score, scale);
    }
    barrier(CLK_LOCAL_MEM_FENCE);  // every item reads all of ds
    const int keys = min(GROUP, last_key + 1 - block);
    for (int e = item; e < E; e += GROUP) {
      for (int n = 0; n < keys; ++n) {
        const long from = (block + n) * k_step + head + e;
        sums[e] = fma(ds[n], LOAD_ONE(X_TYPE, k, from), sums[e]);
      }
    }
    barrier(CLK_LOCAL_MEM_FENCE);  // the next block overwrites ds
  }
  for (int e = item; e < E; e += GROUP) STORE_ONE(RESULT_TYPE, dq, at * E + e, sums[e]);
}
