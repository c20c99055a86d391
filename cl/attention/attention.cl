// attention: causal grouped-query attention with an online softmax, and the append to its KV cache.
// This is the portable forward kernel.
//   y[t, h] = sum_k p_k v[k, g],  p = softmax_k(scale * q[t, h] . k[k, g]),  g = h / (H / G)
//   log_sum_exp[t, h] = log sum_k exp(scale * q[t, h] . k[k, g]),  k in first[t] .. last[t]
//   cache_append: cache[positions[t]] = rows[t]
//
// Shapes  q, y [T, H, E]; k, v, cache [Tk, G, E]; first, last, positions [T] i32;
//         log_sum_exp [T, H]; rows [T, G, E]
// Types   q and rows of -D X_TYPE, k and v of KEY_TYPE (without it X_TYPE), y and cache of
//         RESULT_TYPE: f32, bf16 or f16; all else f32
// Work    attention_forward: a work-group of GROUP items owns one row (along dimension 0: GPUs
//         limit the other dimensions to 65535 groups) and head; an item owns one key of a block of
//         scores, and then every GROUP-th column of y
//         cache_append: an item owns one element
// Local   the row of q [E], sums of y [E], scores [GROUP]
// Cost    4 E flops a (query, key) pair and head
// Numerics online softmax (Milakov and Gimelshein, 2018); only keys of the range are read.
//         -D SOFT_CAP: scores are capped (soft_cap.clh); -D BIAS: scores have a bias
//         (attention_bias.clh)
//! clc: build GROUP=64 X_TYPE={f32,bf16,f16} RESULT_TYPE={f32,f16}
//! clc: build GROUP=64 X_TYPE=f32 KEY_TYPE={bf16,f16} RESULT_TYPE=f32
//! clc: build GROUP=64 X_TYPE=f32 RESULT_TYPE=f32 SOFT_CAP=50.0f
//! clc: build GROUP=64 X_TYPE={f32,bf16} RESULT_TYPE=f32 BIAS
//! clc: budget on gfx90a registers<=48 spills=0
#include "attention/attention_bias.clh"
#include "attention/attention_problem.clh"
#include "elements.clh"
#include "group_reduce.clh"
#include "soft_cap.clh"

#ifndef KEY_TYPE
#define KEY_TYPE X_TYPE
#endif

__attribute__((reqd_work_group_size(GROUP, 1, 1))) __kernel void attention_forward(
    __global STORED(RESULT_TYPE)* y, __global float* log_sum_exp, __global const STORED(X_TYPE)* q,
    __global const STORED(KEY_TYPE)* k, __global const STORED(KEY_TYPE)* v,
    __global const int* first, __global const int* last, AttentionProblem problem,
    int keeps_log_sum_exp, __local float* query,
    __local float* sums BIAS_PARAMETERS) {
  const int H = problem.H, G = problem.G, E = problem.E;
  __local float scores[GROUP];
  const int h = get_group_id(1), item = get_local_id(0);
  const long t = get_group_id(0);
  const long k_step = (long)G * E;
  const long head = (long)(h / (H / G)) * E;
  const long row = (t * H + h) * E;
  for (int e = item; e < E; e += GROUP) {
    query[e] = LOAD_ONE(X_TYPE, q, row + e) * problem.scale;
    sums[e] = 0.0f;
  }
  barrier(CLK_LOCAL_MEM_FENCE);  // every item reads the full query

  const int end = last[t] + 1;
  float running_max = -INFINITY, total = 0.0f;
  for (int block = first[t]; block < end; block += GROUP) {
    const int key = block + item;
    float score = -INFINITY;
    if (key < end) {
      score = 0.0f;
      __global const STORED(KEY_TYPE)* k_row = k + key * k_step + head;
      for (int e = 0; e < E; ++e) score = fma(query[e], LOAD_ONE(KEY_TYPE, k_row, e), score);
      CAP_SCORES(score, 1.0f);
      ADD_BIAS(score, h, key, (int)t);
    }
    const float new_max = fmax(running_max, group_max(score, scores));
    const float factor = exp(running_max - new_max);
    const float p = key < end ? exp(score - new_max) : 0.0f;
    total = total * factor + group_sum(p, scores);
    running_max = new_max;
    barrier(CLK_LOCAL_MEM_FENCE);  // every item has read the sum in scores[0]
    scores[item] = p;
    barrier(CLK_LOCAL_MEM_FENCE);  // every item reads all scores
    const int keys = min(GROUP, end - block);
    for (int e = item; e < E; e += GROUP) {
      float sum = sums[e] * factor;
      __global const STORED(KEY_TYPE)* v_at = v + block * k_step + head + e;
      for (int n = 0; n < keys; ++n) {
        sum = fma(scores[n], LOAD_ONE(KEY_TYPE, v_at, n * k_step), sum);
      }
      sums[e] = sum;
    }
  }  // the next block's group_max begins with a barrier, after which all have read the scores
  for (int e = item; e < E; e += GROUP) STORE_ONE(RESULT_TYPE, y, row + e, sums[e] / total);
  if (keeps_log_sum_exp && item == 0) log_sum_exp[t * H + h] = running_max + log(total);
}

__kernel void cache_append(__global STORED(RESULT_TYPE)* cache, __global const STORED(X_TYPE)* rows,
                           __global const int* positions, int S, int width) {
  const int e = get_global_id(0);
  const long t = get_global_id(1);
  const int position = positions[t];
  if (e >= width || position < 0 || position >= S) return;
  STORE_ONE(RESULT_TYPE, cache, (long)position * width + e, LOAD_ONE(X_TYPE, rows, t * width + e));
}
