// attention, forward, in tiles of queries: the portable kernel for many rows.
//   y[t, h] = sum_k p_k v[k, g],  p = softmax_k(scale * q[t, h] . k[k, g]),  g = h / (H / G)
//   log_sum_exp[t, h] = log sum_k exp(scale * q[t, h] . k[k, g]),  k in first[t] .. last[t]
//
// Shapes  q, y [T, H, E]; k, v [Tk, G, E]; first, last [T] i32; log_sum_exp [T, H]; E = HEAD_DIM
// Types   q of -D X_TYPE, k and v of KEY_TYPE (without it X_TYPE), y of RESULT_TYPE: f32, bf16 or
//         f16; all else f32
// Work    a work-group owns TILE_ROWS queries of one head and loops over blocks of BLOCK keys; an
//         item owns ITEM_ROWS queries, for some of the keys and of the columns of y
// Local   the stages of attention_tile.clh; the weights p [BLOCK, TILE_ROWS]; a maximum for each
//         query and each of ITEMS_ACROSS items
// Tiles              BLOCK keys            E
//        TILE_ROWS |  scores p  |  *  |  values  |  added to y [TILE_ROWS, E] in registers
// Cost    4 E flops a (query, key) pair and head, for all pairs of the blocks that a tile reads
// Numerics flash attention (Dao et al., 2022) with an online softmax; scores in units of log 2;
//         only keys in the range of a tile's rows are read. -D SOFT_CAP: scores are capped
//         (soft_cap.clh)
//! clc: build TILE_ROWS=64 BLOCK=64 STEPS=16 ITEM_ROWS=4 ITEMS_ACROSS=8 HEAD_DIM={64,128}
//!     X_TYPE=f32 RESULT_TYPE=f32
//! clc: build TILE_ROWS=64 BLOCK=64 STEPS=16 ITEM_ROWS=4 ITEMS_ACROSS=8 HEAD_DIM=64
//!     X_TYPE={bf16,f16} RESULT_TYPE={bf16,f16}
//! clc: build TILE_ROWS=64 BLOCK=64 STEPS=16 ITEM_ROWS=4 ITEMS_ACROSS=8 HEAD_DIM=64
//!     X_TYPE=f32 KEY_TYPE={bf16,f16} RESULT_TYPE=f32
//! clc: build TILE_ROWS=32 BLOCK=32 STEPS=8 ITEM_ROWS=4 ITEMS_ACROSS=8 HEAD_DIM=20
//!     X_TYPE={f32,f16} RESULT_TYPE=f32
//! clc: build TILE_ROWS=64 BLOCK=64 STEPS=16 ITEM_ROWS=4 ITEMS_ACROSS=8 HEAD_DIM=64
//!     X_TYPE=f32 RESULT_TYPE=f32 SOFT_CAP=50.0f
//! clc: budget on gfx90a registers<=350 spills=0
#include "attention/attention_tile.clh"
#include "soft_cap.clh"

#define LOG2_E 1.44269504f
#define LN_2 0.693147181f

// The scores in units of log 2; -infinity for a key that its query does not attend to.
INLINE void mask_scores(float4 scores[ITEM_ROWS * BLOCK_FOURS], const int2 ranges[ITEM_ROWS],
                        int block, float scale, uint item) {
#pragma unroll
  for (uint i = 0; i < ITEM_ROWS; ++i) {
#pragma unroll
    for (uint j = 0; j < BLOCK_FOURS; ++j) {
      const int4 key = block + (int)tile_column(item, j) + (int4)(0, 1, 2, 3);
      const int4 is_attended = key >= ranges[i].x && key <= ranges[i].y;
      float4* score = scores + i * BLOCK_FOURS + j;
      CAP_SCORES(*score, scale * LN_2);
      *score = select((float4)(-INFINITY), *score * scale, is_attended);
    }
  }
}

// Raises each row's maximum to that of all its items' scores. Barriers: one.
INLINE void raise_maxima(float maxima[ITEM_ROWS], const float4 scores[ITEM_ROWS * BLOCK_FOURS],
                         __local float* item_maxima, uint item) {
#pragma unroll
  for (uint i = 0; i < ITEM_ROWS; ++i) {
    float4 most = scores[i * BLOCK_FOURS];
#pragma unroll
    for (uint j = 1; j < BLOCK_FOURS; ++j) most = fmax(most, scores[i * BLOCK_FOURS + j]);
    item_maxima[tile_row(item, i) * (ITEMS_ACROSS + 1) + item % ITEMS_ACROSS] =
        fmax(fmax(most.x, most.y), fmax(most.z, most.w));
  }
  barrier(CLK_LOCAL_MEM_FENCE);  // the maxima of all items are complete
#pragma unroll
  for (uint i = 0; i < ITEM_ROWS; ++i) {
#pragma unroll
    for (uint a = 0; a < ITEMS_ACROSS; ++a) {
      maxima[i] = fmax(maxima[i], item_maxima[tile_row(item, i) * (ITEMS_ACROSS + 1) + a]);
    }
  }
}

// Before the first key of a row its maximum is -infinity: then any finite value may be subtracted.
float finite_maximum(float maximum) { return maximum == -INFINITY ? 0.0f : maximum; }

__attribute__((reqd_work_group_size(ITEMS, 1, 1))) __kernel void attention_flash(
    __global STORED(RESULT_TYPE)* y, __global float* log_sum_exp, __global const STORED(X_TYPE)* q,
    __global const STORED(KEY_TYPE)* k, __global const STORED(KEY_TYPE)* v,
    __global const int* first, __global const int* last, AttentionProblem problem,
    int keeps_log_sum_exp) {
  __local float4 stage_fours[STAGE_FLOATS / 4];
  __local float4 weight_fours[BLOCK * LEFT_STRIDE / 4];
  __local float item_maxima[TILE_ROWS * (ITEMS_ACROSS + 1)];
  __local int finite[2];
  __local float* const stage = (__local float*)stage_fours;
  __local float* const weights = (__local float*)weight_fours;
  const int T = problem.T, H = problem.H, G = problem.G;
  const uint item = get_local_id(0);
  if (item < 2) finite[item] = 1;  // add_dots has barriers before they are read
  const int h = get_group_id(1);
  // The last queries have the most keys in a causal mask, so their tiles begin first.
  const int begin = ((int)get_num_groups(0) - 1 - (int)get_group_id(0)) * TILE_ROWS;
  const int2 keys = range_of_tile(first, last, begin, T);
  const long head = (long)(h / (H / G)) * HEAD_DIM, key_stride = (long)G * HEAD_DIM;
  const HeadRows queries = {q + (long)h * HEAD_DIM, (long)H * HEAD_DIM, 0, T - 1, begin};
  KeyRows k_rows = {k + head, key_stride, keys.x, keys.y, keys.x};
  KeyRows v_rows = {v + head, key_stride, keys.x, keys.y, keys.x};

  int2 ranges[ITEM_ROWS];
  float maxima[ITEM_ROWS], totals[ITEM_ROWS];  // totals: of the item's own keys
  float4 sums[ITEM_ROWS * WIDTH_FOURS];
#pragma unroll
  for (uint i = 0; i < ITEM_ROWS; ++i) {
    const int t = min(begin + (int)tile_row(item, i), T - 1);
    ranges[i] = (int2)(first[t], last[t]);
    maxima[i] = -INFINITY;
    totals[i] = 0.0f;
  }
  clear_weighted(sums);

  for (int block = keys.x; block <= keys.y; block += BLOCK) {
    k_rows.begin = v_rows.begin = block;
    float4 scores[ITEM_ROWS * BLOCK_FOURS];
    clear_dots(scores);
    add_dots(scores, queries, k_rows, stage, item);
    mask_scores(scores, ranges, block, problem.scale * LOG2_E, item);
    float before[ITEM_ROWS];
#pragma unroll
    for (uint i = 0; i < ITEM_ROWS; ++i) before[i] = maxima[i];
    raise_maxima(maxima, scores, item_maxima, item);
#pragma unroll
    for (uint i = 0; i < ITEM_ROWS; ++i) {
      const float maximum = finite_maximum(maxima[i]);
      const float factor = exp2(before[i] - maximum);
      totals[i] *= factor;
#pragma unroll
      for (uint j = 0; j < WIDTH_FOURS; ++j) sums[i * WIDTH_FOURS + j] *= factor;
#pragma unroll
      for (uint j = 0; j < BLOCK_FOURS; ++j) {
        const float4 p = exp2(scores[i * BLOCK_FOURS + j] - maximum);
        scores[i * BLOCK_FOURS + j] = p;
        totals[i] += (p.x + p.y) + (p.z + p.w);
      }
    }
    store_weights(weights, scores, item);
    add_weighted(sums, weights, v_rows, stage, finite, item);
  }

#pragma unroll
  for (uint i = 0; i < ITEM_ROWS; ++i) {
    item_maxima[tile_row(item, i) * (ITEMS_ACROSS + 1) + item % ITEMS_ACROSS] = totals[i];
  }
  barrier(CLK_LOCAL_MEM_FENCE);  // the totals of all items are complete
  float inverses[ITEM_ROWS];
#pragma unroll
  for (uint i = 0; i < ITEM_ROWS; ++i) {
    const uint row = tile_row(item, i);
    float total = 0.0f;
    for (uint a = 0; a < ITEMS_ACROSS; ++a) total += item_maxima[row * (ITEMS_ACROSS + 1) + a];
    inverses[i] = 1.0f / total;
    if (!keeps_log_sum_exp || item % ITEMS_ACROSS != 0 || begin + (int)row >= T) continue;
    log_sum_exp[(long)(begin + (int)row) * H + h] = finite_maximum(maxima[i]) * LN_2 + log(total);
  }
  store_rows(y + (long)h * HEAD_DIM, (long)H * HEAD_DIM, begin, T, sums, inverses, item);
}
