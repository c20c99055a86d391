// attention, backward, for CPU devices, over packed rows (row t attends to keys first[t] ..
// last[t], and the rows that attend to key k are k .. or, if not causal, first[k] .. last[k]).
//   p[t, h, k] = exp(scale * q[t, h] . k[k, g] - log_sum_exp[t, h]),  g = h / (H / G)
//   ds[t, h, k] = scale * p * (dy[t, h] . v[k, g] - dy[t, h] . y[t, h])
//   dv[k, g] = sum_{h, t} p dy[t, h]      dk[k, g] = sum_{h, t} ds q[t, h]
//   dq[t, h] = sum_k ds k[k, g]
//
// Shapes  q, y, dy, dq [T, H, E]; k, v, dk, dv [T, G, E]; first, last [T] i32; log_sum_exp [T, H];
//         dq_parts [chunks - 1, T, H, E]
// Types   f32
// Work    attention_backward_cpu: a work-group of one work-item owns the keys of one chunk of one
//         key head: it computes all of their dk and dv, and their contribution to dq. A row's own
//         chunk writes its contribution to dq, the others write to dq_parts. Work-group
//         ids run over key heads, and within a key head over the first chunk, the last, the second,
//         the last but one ..., which balances the work for drivers that hand out ranges of groups.
//         attention_add_parts_cpu (attention_backward_parts_cpu.clh) adds the parts.
// Local   one array a group: panels [E][32] of q and dy, dq [E][32], p and ds [KEYS][32], a row of
//         32 for each of first, last, log_sum_exp and dy . y
// Tiles   8 x 32 sums in micro-tiles, see attention_tile_cpu.clh; all five products read k, v, q and
//         dy in place, and only the panels of q and dy are transposed copies
// Cost    10 E flops a (query, key) pair and head
// Numerics p from the forward's log_sum_exp, at most 1 up to rounding; every sum in one fixed order.
//         -D SOFT_CAP: scores are capped (soft_cap.clh); -D BIAS: scores have a bias
//         (attention_bias.clh), which is frozen
//! clc: build on cpu: KEYS=64
//! clc: build on cpu: KEYS=64 SOFT_CAP=50.0f
//! clc: build on cpu: KEYS=64 BIAS
//! clc: build on cpu: KEYS=64 VECTOR_FLOATS={8,4} VECTOR_REGISTERS={16,32}
#include "attention/attention_tile_cpu.clh"
#include "attention/attention_bias_cpu.clh"
#include "attention/attention_backward_parts_cpu.clh"
#include "attention/attention_problem.clh"

#ifndef KEYS
#error "KEYS: keys of one block of scores, a multiple of 8"
#endif

// Replaces the scores by p and dy . v by ds, for one block.
__attribute__((noinline)) void weights_of_scores(
    __local float* p, __local float* ds, __local const int* lane_first,
    __local const int* lane_last, __local const float* lane_log, __local const float* lane_dot,
    int key, int keys, float scale, bool masked) {
  for (int side = 0; side < QUERIES; side += 16) {
    const float16 log_sum = vload16(0, lane_log + side), dot = vload16(0, lane_dot + side);
    const int16 first = vload16(0, lane_first + side), last = vload16(0, lane_last + side);
    for (int n = 0; n < keys; ++n) {
      __local float* p_at = p + n * QUERIES + side;
      __local float* ds_at = ds + n * QUERIES + side;
      float16 score = vload16(0, p_at);
      CAP_SCORES(score, LN_2);
      float16 weight = exp2_16_f32(score - log_sum);
      float16 gradient = weight * (vload16(0, ds_at) - dot) * scale;
      CAP_GRADIENTS(gradient, score, LN_2);
      if (masked) {
        const int16 seen = (first <= key + n) & (last >= key + n);
        weight = seen ? weight : (float16)(0.0f);
        gradient = seen ? gradient : (float16)(0.0f);
      }
      store_floats(__local, p_at, weight);
      store_floats(__local, ds_at, gradient);
    }
  }
}

// out[n] += weights[n] . rows for `keys` keys: dv from p and dy, dk from ds and q. Queries
// below `ahead` + n do not attend to key n.
__attribute__((noinline)) void add_to_keys(__global float* out, long out_step,
                                                __local const float* weights,
                                                __global const float* rows, long row_step,
                                                int count, int keys, int ahead, int width) {
  int n = 0;
  for (int n_end; n + ROWS <= keys; n = n_end) {
    const int from = max(0, ahead + n);
    // All tiles of keys that every query attends to, or one.
    n_end = from > 0 ? n + ROWS : min(keys, ROWS - ahead) / ROWS * ROWS;
    __local const float* left = weights + n * QUERIES + from;
    __global const float* right = rows + from * row_step;
    __global float* to = out + n * out_step;
    int e = 0;
    for (; e + 32 <= width; e += 32) {
      rows_update_wide(to + e, out_step, left, right + e, row_step, count - from, n_end - n);
    }
    for (; e < width; e += 16) {
      for (int i = 0; i < n_end - n; i += ROWS) {
        rows_update_8(to + i * out_step + e, out_step, left + i * QUERIES, right + e, row_step,
                      count - from, min(16, width - e));
      }
    }
  }
  for (; n < keys; ++n) {
    for (int e = 0; e < width; e += 16) {
      rows_update_1(out + n * out_step + e, out_step, weights + n * QUERIES, rows + e, row_step,
                    count, min(16, width - e));
    }
  }
}

__attribute__((reqd_work_group_size(1, 1, 1))) __kernel void attention_backward_cpu(
    __global float* dq, __global float* dq_parts, __global float* dk, __global float* dv,
    __global const float* dy, __global const float* y, __global const float* log_sum_exp,
    __global const float* q, __global const float* k, __global const float* v,
    __global const int* first, __global const int* last, AttentionProblem problem, int chunk,
    __local float* scratch BIAS_PARAMETERS) {
  const int T = problem.T, H = problem.H, G = problem.G, E = problem.E;
  const float scale = problem.scale;
  __local float* q_panel = scratch;
  __local float* dy_panel = q_panel + E * QUERIES;
  __local float* dq_panel = dy_panel + E * QUERIES;
  __local float* p = dq_panel + E * QUERIES;
  __local float* ds = p + KEYS * QUERIES;
  __local float* lane_log = ds + KEYS * QUERIES;
  __local float* lane_dot = lane_log + QUERIES;
  __local int* lane_first = (__local int*)(lane_dot + QUERIES);
  __local int* lane_last = lane_first + QUERIES;

  float ones[QUERIES];
  for (int i = 0; i < QUERIES; ++i) ones[i] = 1.0f;

  const int chunks = (T + chunk - 1) / chunk;
  const int turn = (int)get_group_id(0) % chunks, g = (int)get_group_id(0) / chunks;
  const int part = turn % 2 ? chunks - 1 - turn / 2 : turn / 2;
  // clc: allow index-overflow below T
  const int c0 = part * chunk, c1 = min(T, c0 + chunk);
  const long q_step = (long)H * E, k_step = (long)G * E;
  for (int key = c0; key < c1; ++key) {
    for (int e = 0; e < E; ++e) {
      dk[key * k_step + (long)g * E + e] = 0.0f;
      dv[key * k_step + (long)g * E + e] = 0.0f;
    }
  }

  // A multiple of QUERIES: a block of queries has one own chunk.
  const int t_begin = problem.causal ? c0 : first[c0] / QUERIES * QUERIES;
  for (int t0 = t_begin; t0 < T && first[t0] < c1; t0 += QUERIES) {
    const int count = min(QUERIES, T - t0);
    // Full tiles of keys: c0 is a multiple of 8, and so is c1 unless it is T.
    const int begin = max(c0, first[t0] / ROWS * ROWS);
    const int end = min(c1, (last[t0 + count - 1] + ROWS) / ROWS * ROWS);
    const int all_begin = first[t0 + count - 1], all_end = last[t0] + 1;
    for (int i = 0; i < QUERIES; ++i) {
      lane_first[i] = i < count ? first[t0 + i] : INT_MAX;
      lane_last[i] = last[min(t0 + i, T - 1)];
    }

    for (int h = g * (H / G); h < (g + 1) * (H / G); ++h) {
      const long q_at = t0 * q_step + (long)h * E;
      rows_to_panel(q_panel, q + q_at, q_step, count, E, scale * LOG2_E);
      rows_to_panel(dy_panel, dy + q_at, q_step, count, E, 1.0f);
      for (int i = 0; i < QUERIES; ++i) {
        const long row = q_at + i * q_step;
        lane_log[i] = i < count ? log_sum_exp[(long)(t0 + i) * H + h] * LOG2_E : 0.0f;
        lane_dot[i] = i < count ? row_dot(dy + row, y + row, E) : 0.0f;
      }
      for (int e = 0; e < 2 * E; ++e) store_floats(__local, dq_panel + 16 * e, (float16)(0.0f));

      for (int key = begin; key < end; key += KEYS) {
        const int keys = min(KEYS, end - key);
        const long k_at = key * k_step + (long)g * E;
        rows_times_panel(p, k + k_at, k_step, keys, keys, q_panel, E);
        ADD_BIAS_OF_BLOCK(p, h, key, keys, t0);
        rows_times_panel(ds, v + k_at, k_step, keys, keys, dy_panel, E);
        const int ahead = problem.causal ? key - t0 : -KEYS;
        const bool masked = count < QUERIES || key < all_begin || key + keys > all_end;
        weights_of_scores(p, ds, lane_first, lane_last, lane_log, lane_dot, key, keys, scale,
                          masked);
        add_to_keys(dv + k_at, k_step, p, dy + q_at, q_step, count, keys, ahead, E);
        add_to_keys(dk + k_at, k_step, ds, q + q_at, q_step, count, keys, ahead, E);
        panel_update(dq_panel, ones, k + k_at, k_step, ds, keys, E);
      }
      __global float* to = dq_of_chunk(dq, dq_parts, t0, part, c0, c1, T * q_step);
      panel_to_rows(to + q_at, q_step, count, E, dq_panel, 1.0f, 1.0f);
    }
  }
}
