// attention, backward, in tiles, over packed rows (row t attends to keys first[t] .. last[t], and
// the rows that attend to key k are k .. or, if not causal, first[k] .. last[k]): the portable
// kernels for many rows.
//   p[t, h, k] = exp(scale * q[t, h] . k[k, g] - log_sum_exp[t, h]),  g = h / (H / G)
//   ds[t, h, k] = scale * p * (dy[t, h] . v[k, g] - dot[t, h]),  dot = dy . y
//   dv[k, g] = sum_{h, t} p dy[t, h]      dk[k, g] = sum_{h, t} ds q[t, h]
//   dq[t, h] = sum_k ds k[k, g]
//
// Shapes  q, dy, dq [T, H, E]; k, v [T, G, E]; dk, dv [T, H, E], a part for each query head; first,
//         last [T] i32, non-decreasing; log_sum_exp, dot [T, H]; E = HEAD_DIM
// Types   q, k, v and dy of -D X_TYPE, dq, dk and dv of RESULT_TYPE: f32, bf16 or f16; all else f32
// Work    attention_backward_flash_queries: a work-group owns TILE_ROWS rows of dq of one head and
//         loops over blocks of BLOCK keys.
//         attention_backward_flash_keys: a work-group owns TILE_ROWS rows of dk and dv for one
//         query head and loops over blocks of BLOCK queries.
// Local   the stages of attention_tile.clh; weights [BLOCK, TILE_ROWS], p or ds
// Cost    14 E flops a (query, key) pair and head: scores and dy . v are computed twice
// Numerics p from the forward's log_sum_exp; every sum in one fixed order. -D SOFT_CAP: scores are
//         capped (soft_cap.clh)
//! clc: build TILE_ROWS=64 BLOCK=64 STEPS=16 ITEM_ROWS=4 ITEMS_ACROSS=8 HEAD_DIM={64,128}
//!     X_TYPE=f32 RESULT_TYPE=f32
//! clc: build TILE_ROWS=64 BLOCK=64 STEPS=16 ITEM_ROWS=4 ITEMS_ACROSS=8 HEAD_DIM=64
//!     X_TYPE={bf16,f16} RESULT_TYPE={bf16,f16}
//! clc: build TILE_ROWS=32 BLOCK=32 STEPS=8 ITEM_ROWS=4 ITEMS_ACROSS=8 HEAD_DIM=20
//!     X_TYPE={f32,f16} RESULT_TYPE=f32
//! clc: build TILE_ROWS=64 BLOCK=64 STEPS=16 ITEM_ROWS=4 ITEMS_ACROSS=8 HEAD_DIM=64
//!     X_TYPE=f32 RESULT_TYPE=f32 SOFT_CAP=50.0f
//! clc: budget on gfx90a registers<=400 spills=0
#include "attention/attention_tile.clh"
#include "soft_cap.clh"

#define LOG2_E 1.44269504f

// Replaces scores and dots (dy . v) of pairs by p and ds. lse2 is log_sum_exp in units of log 2.
INLINE void weigh(float4* score, float4* dot_v, float4 lse2, float4 dot, int4 is_attended,
                  float scale) {
  CAP_SCORES(*score, scale);
  const float4 p = select((float4)(0.0f), exp2(*score * (scale * LOG2_E) - lse2), is_attended);
  float4 ds = p * (*dot_v - dot) * scale;
  CAP_GRADIENTS(ds, *score, scale);
  *score = p;
  *dot_v = select((float4)(0.0f), ds, is_attended);
}

__attribute__((reqd_work_group_size(ITEMS, 1, 1))) __kernel void attention_backward_flash_queries(
    __global STORED(RESULT_TYPE)* dq, __global const STORED(X_TYPE)* dy,
    __global const float* log_sum_exp, __global const float* dot, __global const STORED(X_TYPE)* q,
    __global const STORED(X_TYPE)* k, __global const STORED(X_TYPE)* v, __global const int* first,
    __global const int* last, AttentionProblem problem) {
  __local float4 stage_fours[STAGE_FLOATS / 4];
  __local float4 weight_fours[BLOCK * LEFT_STRIDE / 4];
  __local int finite[2];
  __local float* const stage = (__local float*)stage_fours;
  __local float* const weights = (__local float*)weight_fours;
  const int T = problem.T, H = problem.H, G = problem.G;
  const uint item = get_local_id(0);
  if (item < 2) finite[item] = 1;  // add_dots has barriers before they are read
  const int h = get_group_id(1);
  // The last queries have the most keys in a causal mask, so their tiles begin first.
  const int begin = ((int)get_num_groups(0) - 1 - (int)get_group_id(0)) * TILE_ROWS;
  const int last_key = last[min(begin + TILE_ROWS, T) - 1];
  const long stride = (long)H * HEAD_DIM, key_stride = (long)G * HEAD_DIM;
  const long head = (long)h * HEAD_DIM, key_head = (long)(h / (H / G)) * HEAD_DIM;
  const HeadRows q_rows = {q + head, stride, 0, T - 1, begin};
  const HeadRows dy_rows = {dy + head, stride, 0, T - 1, begin};
  // first is non-decreasing, so that of the tile's first row is the smallest.
  const int first_key = first[begin];
  HeadRows k_rows = {k + key_head, key_stride, first_key, last_key, first_key};
  HeadRows v_rows = {v + key_head, key_stride, first_key, last_key, first_key};

  float4 sums[ITEM_ROWS * WIDTH_FOURS];
  clear_weighted(sums);
  int2 ranges[ITEM_ROWS];
  float2 of_rows[ITEM_ROWS];  // log_sum_exp in units of log 2, dot
  float ones[ITEM_ROWS];
#pragma unroll
  for (uint i = 0; i < ITEM_ROWS; ++i) {
    const int t = min(begin + (int)tile_row(item, i), T - 1);
    ranges[i] = (int2)(first[t], last[t]);
    of_rows[i] = (float2)(log_sum_exp[(long)t * H + h] * LOG2_E, dot[(long)t * H + h]);
    ones[i] = 1.0f;
  }
  for (int block = first_key; block <= last_key; block += BLOCK) {
    k_rows.begin = v_rows.begin = block;
    float4 scores[ITEM_ROWS * BLOCK_FOURS], dots[ITEM_ROWS * BLOCK_FOURS];
    clear_dots(scores);
    clear_dots(dots);
    add_dots(scores, q_rows, k_rows, stage, item);
    add_dots(dots, dy_rows, v_rows, stage, item);
#pragma unroll
    for (uint i = 0; i < ITEM_ROWS; ++i) {
#pragma unroll
      for (uint j = 0; j < BLOCK_FOURS; ++j) {
        const int4 key = block + (int)tile_column(item, j) + (int4)(0, 1, 2, 3);
        const uint at = i * BLOCK_FOURS + j;
        weigh(scores + at, dots + at, (float4)(of_rows[i].x), (float4)(of_rows[i].y),
              key >= ranges[i].x && key <= ranges[i].y, problem.scale);
      }
    }
    store_weights(weights, dots, item);
    add_weighted(sums, weights, k_rows, stage, finite, item);
  }
  store_rows(dq + head, stride, begin, T, sums, ones, item);
}

// The row after the last one that attends to a key up to `last_key`, from row `from` on. REQUIRES:
// row `from` attends to one.
int end_of_readers(__global const int* first, int last_key, int from, int T) {
  int reads = from, past = T;
  while (past - reads > 1) {
    const int middle = (reads + past) / 2;
    if (first[middle] <= last_key) {
      reads = middle;
    } else {
      past = middle;
    }
  }
  return past;
}

// log_sum_exp in units of log 2 and dot of rows t .. t + 3, and the keys that they attend to.
typedef struct {
  float4 lse2, dot;
  int4 first, last;
} FourRows;

FourRows four_rows(__global const float* log_sum_exp, __global const float* dot,
                   __global const int* first, __global const int* last, int t, int T, int H,
                   int h) {
  const int a = min(t, T - 1), b = min(t + 1, T - 1), c = min(t + 2, T - 1), d = min(t + 3, T - 1);
  const long of_a = (long)a * H + h, of_b = (long)b * H + h, of_c = (long)c * H + h,
             of_d = (long)d * H + h;
  const FourRows four = {
      (float4)(log_sum_exp[of_a], log_sum_exp[of_b], log_sum_exp[of_c], log_sum_exp[of_d]) * LOG2_E,
      (float4)(dot[of_a], dot[of_b], dot[of_c], dot[of_d]),
      (int4)(first[a], first[b], first[c], first[d]), (int4)(last[a], last[b], last[c], last[d])};
  return four;
}

__attribute__((reqd_work_group_size(ITEMS, 1, 1))) __kernel void attention_backward_flash_keys(
    __global STORED(RESULT_TYPE)* dk, __global STORED(RESULT_TYPE)* dv,
    __global const STORED(X_TYPE)* dy, __global const float* log_sum_exp, __global const float* dot,
    __global const STORED(X_TYPE)* q,
    __global const STORED(X_TYPE)* k, __global const STORED(X_TYPE)* v, __global const int* first,
    __global const int* last, AttentionProblem problem) {
  __local float4 stage_fours[STAGE_FLOATS / 4];
  __local float4 weight_fours[BLOCK * LEFT_STRIDE / 4];
  __local int finite[2];
  __local float* const stage = (__local float*)stage_fours;
  __local float* const weights = (__local float*)weight_fours;
  const int T = problem.T, H = problem.H, G = problem.G;
  const uint item = get_local_id(0);
  if (item < 2) finite[item] = 1;  // add_dots has barriers before they are read
  const int h = get_group_id(1);
  const int begin = (int)get_group_id(0) * TILE_ROWS;
  const int last_key = min(begin + TILE_ROWS, T) - 1;
  const int end = end_of_readers(first, last_key, last_key, T);
  const int readers = problem.causal ? begin : first[begin];  // the first of them
  const long stride = (long)H * HEAD_DIM, key_stride = (long)G * HEAD_DIM;
  const long head = (long)h * HEAD_DIM, key_head = (long)(h / (H / G)) * HEAD_DIM;
  const HeadRows k_rows = {k + key_head, key_stride, 0, T - 1, begin};
  const HeadRows v_rows = {v + key_head, key_stride, 0, T - 1, begin};
  HeadRows q_rows = {q + head, stride, readers, end - 1, readers};
  HeadRows dy_rows = {dy + head, stride, readers, end - 1, readers};

  float4 dk_sums[ITEM_ROWS * WIDTH_FOURS], dv_sums[ITEM_ROWS * WIDTH_FOURS];
  clear_weighted(dk_sums);
  clear_weighted(dv_sums);
  for (int block = readers; block < end; block += BLOCK) {
    q_rows.begin = dy_rows.begin = block;
    float4 scores[ITEM_ROWS * BLOCK_FOURS], dots[ITEM_ROWS * BLOCK_FOURS];
    clear_dots(scores);
    clear_dots(dots);
    add_dots(scores, k_rows, q_rows, stage, item);
    add_dots(dots, v_rows, dy_rows, stage, item);
#pragma unroll
    for (uint j = 0; j < BLOCK_FOURS; ++j) {
      const int t = block + (int)tile_column(item, j);
      const FourRows four = four_rows(log_sum_exp, dot, first, last, t, T, H, h);
      const int4 row = t + (int4)(0, 1, 2, 3);
#pragma unroll
      for (uint i = 0; i < ITEM_ROWS; ++i) {
        const int key = begin + (int)tile_row(item, i);
        const uint at = i * BLOCK_FOURS + j;
        weigh(scores + at, dots + at, four.lse2, four.dot,
              key >= four.first && key <= four.last && row < T, problem.scale);
      }
    }
    store_weights(weights, scores, item);
    add_weighted(dv_sums, weights, dy_rows, stage, finite, item);
    store_weights(weights, dots, item);
    add_weighted(dk_sums, weights, q_rows, stage, finite, item);
  }
  float ones[ITEM_ROWS];
#pragma unroll
  for (uint i = 0; i < ITEM_ROWS; ++i) ones[i] = 1.0f;
  store_rows(dk + head, stride, begin, T, dk_sums, ones, item);
  store_rows(dv + head, stride, begin, T, dv_sums, ones, item);
}
