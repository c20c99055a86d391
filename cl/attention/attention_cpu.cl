// attention, forward, for CPU devices: causal grouped-query attention with an online softmax.
//   y[t, h] = sum_k p_k v[k, g],  p = softmax_k(scale * q[t, h] . k[k, g]),  g = h / (H / G)
//   log_sum_exp[t, h] = log sum_k exp(scale * q[t, h] . k[k, g]),  k in first[t] .. last[t]
//
// Shapes  q, y [T, H, E]; k, v [Tk, G, E]; first, last [T] i32; log_sum_exp [T, H]
// Types   k and v of -D KEY_TYPE: f32 (without it), bf16 or f16; all else f32
// Work    a work-group of one work-item owns 32 query rows of one head; work-group ids run over
//         blocks of rows, the last, the first, the last but one ..., with heads innermost, which
//         balances the work for drivers that hand out ranges of groups.
// Local   one array a group: panel [E][32] of q, sums [E][32] of y, scores [KEYS][32]; unless
//         KEY_TYPE is f32, rows [KEYS][E] of keys and then of values (attention_upcast_cpu.clh)
// Tiles   8 x 32 sums in micro-tiles, see attention_tile_cpu.clh; the running maximum is corrected
//         once for each KEYS keys; keys that no row of the block attends to are skipped
// Cost    4 E flops a (query, key) pair and head; k and v come from the cache for all blocks of
//         rows except one
// Numerics online softmax (Milakov and Gimelshein, 2018); a lane takes no value from a row outside
//         its range, so a NaN there is harmless. -D SOFT_CAP: scores are capped (soft_cap.clh);
//         -D BIAS: scores have a bias (attention_bias.clh)
//! clc: build on cpu: KEYS=64 KEY_TYPE={f32,bf16,f16}
//! clc: build on cpu: KEYS=64 SOFT_CAP=50.0f
//! clc: build on cpu: KEYS=64 BIAS
//! clc: build on cpu: KEYS=64 VECTOR_FLOATS={8,4} VECTOR_REGISTERS={16,32}
#include "attention/attention_problem.clh"
#include "attention/attention_upcast_cpu.clh"
#include "attention/attention_tile_cpu.clh"
#include "attention/attention_bias_cpu.clh"

#ifndef KEYS
#error "KEYS: keys of one block of scores, a multiple of 8"
#endif

__attribute__((reqd_work_group_size(1, 1, 1))) __kernel void attention_forward_cpu(
    __global float* y, __global float* log_sum_exp, __global const float* q,
    __global const STORED(KEY_TYPE)* k, __global const STORED(KEY_TYPE)* v,
    __global const int* first, __global const int* last, AttentionProblem problem,
    int keeps_log_sum_exp, __local float* scratch BIAS_PARAMETERS) {
  const int T = problem.T, H = problem.H, G = problem.G, E = problem.E;
  __local float* panel = scratch;
  __local float* sums = panel + E * QUERIES;
  __local float* scores = sums + E * QUERIES;
  __local int* lane_first = (__local int*)(scores + KEYS * QUERIES);
  __local int* lane_last = lane_first + QUERIES;
  __local float* rows = (__local float*)(lane_last + QUERIES);

  const int blocks = (T + QUERIES - 1) / QUERIES;
  const int h = get_group_id(0) % H;
  const int turn = (int)get_group_id(0) / H;
  const int t0 = (turn % 2 ? turn / 2 : blocks - 1 - turn / 2) * QUERIES;
  const int count = min(QUERIES, T - t0);
  const long q_step = (long)H * E, k_step = (long)G * E, row_step = ROW_STEP(k_step, E);
  const long q_at = t0 * q_step + (long)h * E;
  const int g = h / (H / G);

  rows_to_panel(panel, q + q_at, q_step, count, E, problem.scale * LOG2_E);
  const KeyRange range = key_range(lane_first, lane_last, first + t0, last + t0, count);
  for (int e = 0; e < 2 * E; ++e) store_floats(__local, sums + 16 * e, (float16)(0.0f));
  // A finite floor: the difference of two infinities would be NaN.
  float16 max0 = -1e30f, max1 = -1e30f, total0 = 0.0f, total1 = 0.0f;

  for (int key = range.begin; key < range.end;) {
    // Full tiles of keys that every row attends to come first, in separate blocks.
    const int all = (range.all_end - key) / ROWS * ROWS;
    const int keys = min(KEYS, all > 0 ? all : range.end - key);
    const bool masked = key < range.all_begin || key + keys > range.all_end;
    const int filled = (keys + ROWS - 1) / ROWS * ROWS;
    const long at = key * k_step + (long)g * E;
    ROW_SPACE const float* k_rows = floats_of_rows(rows, k + at, k_step, keys, E, filled, E);
    const long rows_left = IN_PLACE ? problem.Tk - key : filled;
    rows_times_panel(scores, k_rows, row_step, keys, rows_left, panel, E);
    cap_scores(scores, keys);
    ADD_BIAS_OF_BLOCK(scores, h, key, keys, t0);

    if (masked) {
      const int16 first0 = vload16(0, lane_first), first1 = vload16(1, lane_first);
      const int16 last0 = vload16(0, lane_last), last1 = vload16(1, lane_last);
      for (int n = 0; n < keys; ++n) {
        const int16 seen0 = (first0 <= key + n) & (last0 >= key + n);
        const int16 seen1 = (first1 <= key + n) & (last1 >= key + n);
        __local float* at = scores + n * QUERIES;
        store_floats(__local, at, seen0 ? vload16(0, at) : (float16)(-INFINITY));
        store_floats(__local, at + 16, seen1 ? vload16(1, at) : (float16)(-INFINITY));
      }
    }
    float16 new0 = max0, new1 = max1;
    for (int n = 0; n < keys; ++n) {
      new0 = MAX16(new0, vload16(2 * n, scores));
      new1 = MAX16(new1, vload16(2 * n + 1, scores));
    }
    const float16 factor0 = exp2_16_f32(max0 - new0), factor1 = exp2_16_f32(max1 - new1);
    max0 = new0;
    max1 = new1;
    total0 *= factor0;
    total1 *= factor1;
    for (int n = 0; n < keys; ++n) {
      const float16 p0 = exp2_16_f32(vload16(2 * n, scores) - max0);
      const float16 p1 = exp2_16_f32(vload16(2 * n + 1, scores) - max1);
      total0 += p0;
      total1 += p1;
      store_floats(__local, scores + n * QUERIES, p0);
      store_floats(__local, scores + n * QUERIES + 16, p1);
    }

    ROW_SPACE const float* v_rows = floats_of_rows(rows, v + at, k_step, keys, E, filled, E);
    float factors[QUERIES];
    store_floats(__private, factors, factor0);
    store_floats(__private, factors + 16, factor1);
    if (masked) {
      seen_panel_update(sums, factors, v_rows, row_step, scores, keys, E, key, lane_first, lane_last);
    } else {
      panel_update(sums, factors, v_rows, row_step, scores, keys, E);
    }
    key += keys;
  }

  panel_to_rows(y + q_at, q_step, count, E, sums, 1.0f / total0, 1.0f / total1);
  if (keeps_log_sum_exp) {
    float logs[QUERIES];
    store_floats(__private, logs, max0);
    store_floats(__private, logs + 16, max1);
    store_floats(__local, scores, total0);
    store_floats(__local, scores + 16, total1);
    for (int i = 0; i < count; ++i) {
      log_sum_exp[(long)(t0 + i) * H + h] = (logs[i] + log2(scores[i])) * LN_2;
    }
  }
}
