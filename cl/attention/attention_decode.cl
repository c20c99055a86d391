// attention for few query rows over many keys, as in decoding: portable.
//   y[t, h] = sum_k p_k v[k, g],  p = softmax_k(scale * q[t, h] . k[k, g]),  g = h / (H / G)
//   log_sum_exp[t, h] = log sum_k exp(scale * q[t, h] . k[k, g]),  k in first[t] .. last[t]
//
// Shapes  q, y [T, H, E]; k, v [Tk, G, E]; first, last [T] i32; log_sum_exp [T, H];
//         parts [T, H, SPLITS, E + 2]: unnormalised sums of v, their maximum, their total
// Types   q of -D X_TYPE, k and v of KEY_TYPE (without it X_TYPE), y of RESULT_TYPE: f32, bf16 or
//         f16; k and v also q8_0, with E a multiple of 32 (q8_0_blocks.clh); all else f32.
//         -D HEAD_DIM=E; -D VEC_SIZE=4: E is a multiple of 4, and all but q8_0 are aligned to it
// Pages   -D PAGE: k and v are a cache of pages (paged_keys.clh)
// Work    attention_decode: a work-group of GROUP items owns a row, HEADS neighbouring heads of one
//         key head, and a split of the row's keys: group (t SPLITS + split, h / HEADS). It loops
//         over blocks of GROUP keys: an item owns a key for the scores, and then a column of v and
//         a slice of the keys; it reads keys and values once for all heads.
//         attention_join: an item owns one element of y
// Local   queries [HEADS, E], scores and weights [HEADS, GROUP], sums [HEADS, SLICES, E],
//         totals [HEADS, SLICES], maxima [HEADS]
// Cost    4 E flops a (query, key) pair and head
// Numerics  online softmax over blocks, then over splits; the order is fixed. Only keys of the
//         range are read. -D SOFT_CAP: scores are capped (soft_cap.clh)
//! clc: build GROUP=64 HEADS=1 HEAD_DIM=64 VEC_SIZE=4 SPLITS=16 X_TYPE=f32 RESULT_TYPE=f32 SOFT_CAP=50.0f
//! clc: build GROUP=64 HEADS=1 HEAD_DIM={64,256} VEC_SIZE=4 SPLITS=16 X_TYPE={f32,f16}
//!     RESULT_TYPE={f32,f16}
//! clc: build GROUP=64 HEADS=1 HEAD_DIM={64,256} VEC_SIZE=4 SPLITS=16 X_TYPE=f32 KEY_TYPE={bf16,f16}
//!     RESULT_TYPE=f32
//! clc: build GROUP=64 HEADS=2 HEAD_DIM={5,256} VEC_SIZE=1 SPLITS=2 X_TYPE={f32,bf16} RESULT_TYPE=f32
//! clc: build GROUP=64 HEADS={3,8} HEAD_DIM=64 VEC_SIZE=4 SPLITS=16 X_TYPE=f32
//!     KEY_TYPE={f32,bf16,q8_0} RESULT_TYPE=f32 PAGE=16
//! clc: build GROUP=64 HEADS=2 HEAD_DIM=32 VEC_SIZE=1 SPLITS=2 X_TYPE=bf16 KEY_TYPE=q8_0
//!     RESULT_TYPE=bf16 PAGE=16
//! clc: budget on gfx90a registers<=216 spills=0
#include "activations.clh"
#include "attention/attention_problem.clh"
#include "attention/paged_keys.clh"
#include "q8_0_blocks.clh"
#include "soft_cap.clh"

#if !defined(GROUP) || !defined(HEADS) || !defined(HEAD_DIM) || !defined(SPLITS)
#error "GROUP, items of a group, HEADS, its heads, HEAD_DIM, and SPLITS, of a row's keys, are required"
#endif
#ifndef KEY_TYPE
#define KEY_TYPE X_TYPE
#endif
#if BLOCK_OF(KEY_TYPE) == Q8_0_BLOCK
#define LOAD_KEY(row, i) load_q8_0(row, i)
#else
#define LOAD_KEY(row, i) LOAD_VEC(KEY_TYPE, row, i)
#endif
#define COLUMNS (HEAD_DIM / VEC_SIZE)  // vectors of a head
#define ITEMS_ACROSS (COLUMNS < GROUP ? COLUMNS : GROUP)
#define ITEM_COLUMNS ((COLUMNS + GROUP - 1) / GROUP)
#define SLICES (GROUP / ITEMS_ACROSS)
#define AHEAD (ITEM_COLUMNS == 1 ? 8 : 1)  // rows of v that an item loads at once
#define FINITE_LOW -1e30f  // below every score; finite: a difference of infinities would be NaN

// scores [HEADS] = queries [HEADS, E] . row
__attribute__((always_inline)) void scores_of(float* scores, __local const vec* queries,
                                              __global const STORED(KEY_TYPE)* row) {
  vec sums[HEADS];
#pragma unroll
  for (int j = 0; j < HEADS; ++j) sums[j] = 0.0f;
#pragma unroll 4
  for (int c = 0; c < COLUMNS; ++c) {
    const vec key = LOAD_KEY(row, c);
#pragma unroll
    for (int j = 0; j < HEADS; ++j) sums[j] = fma(queries[j * COLUMNS + c], key, sums[j]);
  }
#pragma unroll
  for (int j = 0; j < HEADS; ++j) {
    scores[j] = dot(sums[j], (vec)(1.0f));
    CAP_SCORES(scores[j], 1.0f);
  }
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
      values[a * ITEM_COLUMNS + i] = LOAD_KEY(row, min(column + i * GROUP, COLUMNS - 1));
    }
  }
}

// Adds the values above to sums [HEADS][ITEM_COLUMNS], with their weights [HEADS, GROUP]; the
// weights' sums to totals [HEADS].
__attribute__((always_inline)) void add_values(vec* sums, float* totals, const vec* values,
                                               __local const float* weights, int n, int count) {
#pragma unroll
  for (int a = 0; a < AHEAD; ++a) {
    if (n + a * SLICES >= count) continue;
#pragma unroll
    for (int j = 0; j < HEADS; ++j) {
      const float weight = weights[j * GROUP + n + a * SLICES];
      totals[j] += weight;
      for (int i = 0; i < ITEM_COLUMNS; ++i) {
        vec* sum = sums + j * ITEM_COLUMNS + i;
        *sum = fma((vec)(weight), values[a * ITEM_COLUMNS + i], *sum);
      }
    }
  }
}

__attribute__((reqd_work_group_size(GROUP, 1, 1))) __kernel void attention_decode(
    __global float* parts, __global const STORED(X_TYPE)* q, __global const STORED(KEY_TYPE)* k,
    __global const STORED(KEY_TYPE)* v, __global const int* first, __global const int* last,
    PAGE_TABLE_PARAMETERS AttentionProblem problem) {
  __local vec queries[HEADS * COLUMNS], slices[HEADS * SLICES * COLUMNS];
  __local float scores[HEADS * GROUP], weights[HEADS * GROUP], slice_totals[HEADS * SLICES];
  __local float maxima[HEADS];
  const int item = (int)get_local_id(0), h = (int)get_group_id(1) * HEADS, G = problem.G;
  const int slice = item / ITEMS_ACROSS, column = item - slice * ITEMS_ACROSS;
  const long t = get_group_id(0) / SPLITS, row = t * problem.H + h;
  const int split = (int)(get_group_id(0) - t * SPLITS);
  FIND_PAGES(t)
  const long k_step = WORDS(KEY_TYPE, (long)G * HEAD_DIM);
  const long head = WORDS(KEY_TYPE, (long)(h / (problem.H / G)) * HEAD_DIM);
  const int share = (last[t] - first[t]) / SPLITS + 1;
  // clc: allow index-overflow of a number of keys
  const int begin = first[t] + split * share, end = min(last[t] + 1, begin + share);
  for (int c = item; c < HEADS * COLUMNS; c += GROUP) {
    queries[c] = LOAD_VEC(X_TYPE, q + row * HEAD_DIM, c) * problem.scale;
  }
  barrier(CLK_LOCAL_MEM_FENCE);  // every item reads the full queries

  vec sums[HEADS * ITEM_COLUMNS];
  for (int i = 0; i < HEADS * ITEM_COLUMNS; ++i) sums[i] = 0.0f;
  float running_max[HEADS], totals[HEADS];
#pragma unroll
  for (int j = 0; j < HEADS; ++j) {
    running_max[j] = FINITE_LOW;
    totals[j] = 0.0f;
  }
  __global const STORED(KEY_TYPE)* k_head = k + head;
  __global const STORED(KEY_TYPE)* v_head = v + head;
  for (int block = begin; block < end; block += GROUP) {
    const int key = block + item, keys = min(GROUP, end - block);
    vec values[AHEAD * ITEM_COLUMNS];  // loaded here: the scores take as long
    load_values(values, v_head, k_step, PAGES_ARGUMENT block, slice, keys, column);
    float own[HEADS];
#pragma unroll
    for (int j = 0; j < HEADS; ++j) own[j] = FINITE_LOW;
    if (key < end) scores_of(own, queries, k_head + KEY_ROW(key) * k_step);
#pragma unroll
    for (int j = 0; j < HEADS; ++j) scores[j * GROUP + item] = own[j];
    barrier(CLK_LOCAL_MEM_FENCE);  // all scores are written, and the last weights have been read
#pragma unroll
    for (int j = 0; j < HEADS; ++j) {
      const float new_max = fmax(running_max[j], largest_of(scores + j * GROUP));
      const float factor = exp(running_max[j] - new_max);
      weights[j * GROUP + item] = key < end ? exp(own[j] - new_max) : 0.0f;
      running_max[j] = new_max;
      totals[j] *= factor;
      for (int i = 0; i < ITEM_COLUMNS; ++i) sums[j * ITEM_COLUMNS + i] *= factor;
    }
    barrier(CLK_LOCAL_MEM_FENCE);  // all weights are written, and the scores have been read
    add_values(sums, totals, values, weights, slice, keys);
    for (int n = slice + AHEAD * SLICES; n < keys; n += AHEAD * SLICES) {
      load_values(values, v_head, k_step, PAGES_ARGUMENT block, n, keys, column);
      add_values(sums, totals, values, weights, n, keys);
    }
  }

#pragma unroll
  for (int j = 0; j < HEADS; ++j) {
    for (int i = 0; i < ITEM_COLUMNS && slice < SLICES; ++i) {
      const int c = column + i * GROUP;
      if (c < COLUMNS) slices[(j * SLICES + slice) * COLUMNS + c] = sums[j * ITEM_COLUMNS + i];
    }
    if (column == 0 && slice < SLICES) slice_totals[j * SLICES + slice] = totals[j];
    if (item == 0) maxima[j] = running_max[j];
  }
  barrier(CLK_LOCAL_MEM_FENCE);  // the sums of all slices are written
  for (int i = item; i < HEADS * HEAD_DIM; i += GROUP) {
    const int j = i / HEAD_DIM, e = i - j * HEAD_DIM;
    __local const float* of_head = (__local const float*)(slices + j * SLICES * COLUMNS);
    float sum = 0.0f;
    for (int n = 0; n < SLICES; ++n) sum += of_head[n * HEAD_DIM + e];
    parts[((row + j) * SPLITS + split) * (HEAD_DIM + 2) + e] = sum;
  }
  if (item >= HEADS) return;
  float total = slice_totals[item * SLICES];
  for (int n = 1; n < SLICES; ++n) total += slice_totals[item * SLICES + n];
  __global float* part = parts + ((row + item) * SPLITS + split) * (HEAD_DIM + 2);
  part[HEAD_DIM] = maxima[item];
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
