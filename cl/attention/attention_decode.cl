// attention for few query rows over many keys, as in decoding: portable.
//   y[t, h] = sum_k p_k v[k, g],  p = softmax_k(scale * q[t, h] . k[k, g]),  g = h / (H / G)
//   log_sum_exp[t, h] = log sum_k exp(scale * q[t, h] . k[k, g]),  k in first[t] .. last[t]
//
// Shapes  q, y [T, H, E]; k, v [Tk, G, E]; first, last [T] i32; log_sum_exp [T, H];
//         parts [T, H, SPLITS, E + 2]: unnormalised sums of v, their maximum, their total
// Types   q of -D X_TYPE, k and v of KEY_TYPE (without it X_TYPE), y of RESULT_TYPE: f32, bf16 or
//         f16; all else f32. -D HEAD_DIM=E; -D VEC_SIZE=4: E is a multiple of 4, and all are
//         aligned to it
// Pages   -D PAGE: k and v are a cache of pages (paged_keys.clh)
// Work    attention_decode: a work-group of GROUP items owns a row, a head and a split of the row's
//         keys: group (t SPLITS + split, h). It loops over blocks of GROUP keys: an item owns a key
//         for the scores, and then a column of v and a slice of the keys.
//         attention_join: an item owns one element of y
// Local   query [E], scores and weights [GROUP], sums [SLICES, E], totals [SLICES]
// Cost    4 E flops a (query, key) pair and head. The query heads of a key head read its keys and
//         values again, from a cache.
// Numerics  online softmax over blocks, then over splits; the order is fixed. Only keys of the
//         range are read. -D SOFT_CAP: scores are capped (soft_cap.clh)
//! clc: build GROUP=64 HEAD_DIM=64 VEC_SIZE=4 SPLITS=16 X_TYPE=f32 RESULT_TYPE=f32 SOFT_CAP=50.0f
//! clc: build GROUP=64 HEAD_DIM={64,256} VEC_SIZE=4 SPLITS=16 X_TYPE={f32,f16}
//!     RESULT_TYPE={f32,f16}
//! clc: build GROUP=64 HEAD_DIM={64,256} VEC_SIZE=4 SPLITS=16 X_TYPE=f32 KEY_TYPE={bf16,f16}
//!     RESULT_TYPE=f32
//! clc: build GROUP=64 HEAD_DIM={5,256} VEC_SIZE=1 SPLITS=2 X_TYPE={f32,bf16} RESULT_TYPE=f32
//! clc: build GROUP=64 HEAD_DIM=64 VEC_SIZE=4 SPLITS=16 X_TYPE=f32 KEY_TYPE={f32,bf16}
//!     RESULT_TYPE=f32 PAGE=16
//! clc: budget on gfx90a registers<=128 spills=0
#include "activations.clh"
#include "attention/attention_problem.clh"
#include "attention/paged_keys.clh"
#include "soft_cap.clh"

#if !defined(GROUP) || !defined(HEAD_DIM) || !defined(SPLITS)
#error "GROUP, items of a group, HEAD_DIM, and SPLITS, of a row's keys, are required"
#endif
#ifndef KEY_TYPE
#define KEY_TYPE X_TYPE
#endif
#define COLUMNS (HEAD_DIM / VEC_SIZE)  // vectors of a head
#define ITEMS_ACROSS (COLUMNS < GROUP ? COLUMNS : GROUP)
#define ITEM_COLUMNS ((COLUMNS + GROUP - 1) / GROUP)
#define SLICES (GROUP / ITEMS_ACROSS)
#define AHEAD (ITEM_COLUMNS == 1 ? 8 : 1)  // rows of v that an item loads at once
#define FINITE_LOW -1e30f  // below every score; finite: a difference of infinities would be NaN

float score_of(__local const vec* query, __global const STORED(KEY_TYPE)* row) {
  vec sum = 0.0f;
#pragma unroll 16
  for (int c = 0; c < COLUMNS; ++c) sum = fma(query[c], LOAD_VEC(KEY_TYPE, row, c), sum);
  return dot(sum, (vec)(1.0f));
}

float largest_of(__local const float* scores) {
  float largest = scores[0];
#pragma unroll 16
  for (int n = 1; n < GROUP; ++n) largest = fmax(largest, scores[n]);
  return largest;
}

// values [AHEAD][ITEM_COLUMNS]: loads rows n, n + SLICES, ... of `count` rows of v from the one of
// key `begin`; past the end the last one is repeated.
__attribute__((always_inline)) void load_values(vec* values,
                                                __global const STORED(KEY_TYPE)* v, long v_step,
                                                PAGES_PARAMETER int begin, int n, int count,
                                                int column) {
#pragma unroll
  for (int a = 0; a < AHEAD; ++a) {
    __global const STORED(KEY_TYPE)* row = v + KEY_ROW(begin + min(n + a * SLICES, count - 1)) * v_step;
    for (int i = 0; i < ITEM_COLUMNS; ++i) {
      values[a * ITEM_COLUMNS + i] = LOAD_VEC(KEY_TYPE, row, min(column + i * GROUP, COLUMNS - 1));
    }
  }
}

// Adds the values above to `sums`, with their weights; the weights' sum to `total`.
__attribute__((always_inline)) void add_values(vec* sums, float* total, const vec* values,
                                               __local const float* weights, int n, int count) {
#pragma unroll
  for (int a = 0; a < AHEAD; ++a) {
    if (n + a * SLICES >= count) continue;
    const float weight = weights[n + a * SLICES];
    *total += weight;
    for (int i = 0; i < ITEM_COLUMNS; ++i) {
      sums[i] = fma((vec)(weight), values[a * ITEM_COLUMNS + i], sums[i]);
    }
  }
}

__attribute__((reqd_work_group_size(GROUP, 1, 1))) __kernel void attention_decode(
    __global float* parts, __global const STORED(X_TYPE)* q, __global const STORED(KEY_TYPE)* k,
    __global const STORED(KEY_TYPE)* v, __global const int* first, __global const int* last,
    PAGE_TABLE_PARAMETERS AttentionProblem problem) {
  __local vec query[COLUMNS], slices[SLICES * COLUMNS];
  __local float scores[GROUP], weights[GROUP], totals[SLICES];
  const int item = (int)get_local_id(0), h = (int)get_group_id(1), G = problem.G;
  const int slice = item / ITEMS_ACROSS, column = item - slice * ITEMS_ACROSS;
  const long t = get_group_id(0) / SPLITS, row = t * problem.H + h;
  const int split = (int)(get_group_id(0) - t * SPLITS);
  FIND_PAGES(t)
  const long k_step = (long)G * HEAD_DIM, head = (long)(h / (problem.H / G)) * HEAD_DIM;
  const int share = (last[t] - first[t]) / SPLITS + 1;
  const int begin = first[t] + split * share, end = min(last[t] + 1, begin + share);
  for (int c = item; c < COLUMNS; c += GROUP) {
    query[c] = LOAD_VEC(X_TYPE, q + row * HEAD_DIM, c) * problem.scale;
  }
  barrier(CLK_LOCAL_MEM_FENCE);  // every item reads the full query

  vec sums[ITEM_COLUMNS];
  for (int i = 0; i < ITEM_COLUMNS; ++i) sums[i] = 0.0f;
  float running_max = FINITE_LOW, total = 0.0f;
  for (int block = begin; block < end; block += GROUP) {
    const int key = block + item, keys = min(GROUP, end - block);
    __global const STORED(KEY_TYPE)* v_head = v + head;
    vec values[AHEAD * ITEM_COLUMNS];  // loaded here: the scores take as long
    load_values(values, v_head, k_step, PAGES_ARGUMENT block, slice, keys, column);
    float score = FINITE_LOW;
    if (key < end) {
      score = score_of(query, k + KEY_ROW(key) * k_step + head);
      CAP_SCORES(score, 1.0f);
    }
    scores[item] = score;
    barrier(CLK_LOCAL_MEM_FENCE);  // all scores are written, and the last weights have been read
    const float new_max = fmax(running_max, largest_of(scores));
    const float factor = exp(running_max - new_max);
    weights[item] = key < end ? exp(score - new_max) : 0.0f;
    running_max = new_max;
    barrier(CLK_LOCAL_MEM_FENCE);  // all weights are written, and the scores have been read
    total *= factor;
    for (int i = 0; i < ITEM_COLUMNS; ++i) sums[i] *= factor;
    add_values(sums, &total, values, weights, slice, keys);
    for (int n = slice + AHEAD * SLICES; n < keys; n += AHEAD * SLICES) {
      load_values(values, v_head, k_step, PAGES_ARGUMENT block, n, keys, column);
      add_values(sums, &total, values, weights, n, keys);
    }
  }

  for (int i = 0; i < ITEM_COLUMNS && slice < SLICES; ++i) {
    const int c = column + i * GROUP;
    if (c < COLUMNS) slices[slice * COLUMNS + c] = sums[i];
  }
  if (column == 0 && slice < SLICES) totals[slice] = total;
  barrier(CLK_LOCAL_MEM_FENCE);  // the sums of all slices are written
  __global float* part = parts + (row * SPLITS + split) * (HEAD_DIM + 2);
  for (int e = item; e < HEAD_DIM; e += GROUP) {
    float sum = 0.0f;
    for (int s = 0; s < SLICES; ++s) sum += ((__local const float*)slices)[s * HEAD_DIM + e];
    part[e] = sum;
  }
  if (item > 0) return;
  for (int s = 1; s < SLICES; ++s) total += totals[s];
  part[HEAD_DIM] = running_max;
  part[HEAD_DIM + 1] = total;
}

__kernel void attention_join(__global STORED(RESULT_TYPE)* y, __global float* log_sum_exp,
                             __global const float* parts, long elements, int keeps_log_sum_exp) {
  const long i = get_global_id(0);
  if (i >= elements) return;
  const long row = i / HEAD_DIM;
  const int e = (int)(i - row * HEAD_DIM);
  __global const float* part = parts + row * SPLITS * (HEAD_DIM + 2);
  float row_max = part[HEAD_DIM];
#pragma unroll
  // clc: allow index-overflow of one head's splits
  for (int s = 1; s < SPLITS; ++s) row_max = fmax(row_max, part[s * (HEAD_DIM + 2) + HEAD_DIM]);
  float sum = 0.0f, total = 0.0f;
#pragma unroll
  for (int s = 0; s < SPLITS; ++s) {
    // clc: allow index-overflow of one head's splits
    __global const float* of_split = part + s * (HEAD_DIM + 2);
    const float factor = exp(of_split[HEAD_DIM] - row_max);
    total = fma(factor, of_split[HEAD_DIM + 1], total);
    sum = fma(factor, of_split[e], sum);
  }
  STORE_ONE(RESULT_TYPE, y, i, sum / total);
  if (keeps_log_sum_exp && e == 0) log_sum_exp[row] = row_max + log(total);
}
