// attention for few query rows over many keys of bf16, as in decoding several sequences: portable,
// for devices whose items read scattered rows slowly. Blocks of keys are copied to local memory.
//   y[t, h] = sum_k p_k v[k, g],  p = softmax_k(scale * q[t, h] . k[k, g]),  g = h / (H / G)
//
// Shapes  q [T, H, E]; k, v [Tk, G, E]; first, last [T] i32; parts [T, H, SPLITS, E + 2]:
//         unnormalised sums of v, their maximum, their total, for attention_join
//         (attention_decode.cl)
// Types   q of -D X_TYPE: f32, bf16 or f16; k and v bf16; all else f32. -D HEAD_DIM=E, a multiple
//         of 8; rows of k are aligned to 16 bytes
// Pages   -D PAGE: k and v are a cache of pages (paged_keys.clh)
// Work    a work-group of GROUP items owns a row, HEADS neighbouring heads of one key head, and a
//         split of the row's keys: group (t SPLITS + split, h / HEADS). It loops over blocks of
//         GROUP keys: an item owns a key for the scores, and then a column of v and a slice of the
//         keys
// Local   keys [GROUP, E + 8] bf16, which later are the sums [HEADS, SLICES, E]; queries [HEADS, E],
//         scores [HEADS, GROUP], maxima [HEADS, CHUNKS], totals [HEADS, GROUP]
// Cost    4 E flops a (query, key) pair and head; reads keys and values once
// Numerics  online softmax over blocks, then over splits; the order is fixed. Only keys of the
//         range are read. -D SOFT_CAP: scores are capped (soft_cap.clh)
//! clc: build GROUP=128 HEADS={1,7} HEAD_DIM={64,128} SPLITS=2 X_TYPE={f32,bf16} PAGE=16
//! clc: build GROUP=128 HEADS=2 HEAD_DIM=128 SPLITS=1 X_TYPE=bf16 SOFT_CAP=50.0f
#define VEC_SIZE 4
#include "activations.clh"
#include "attention/attention_problem.clh"
#include "attention/paged_keys.clh"
#include "soft_cap.clh"

#if !defined(GROUP) || !defined(HEADS) || !defined(HEAD_DIM) || !defined(SPLITS)
#error "GROUP, items of a group, HEADS, its heads, HEAD_DIM, and SPLITS, of a row's keys, are required"
#endif
#define VECS (HEAD_DIM / 4)            // of a head, in f32
#define ROW_WORDS (HEAD_DIM / 8)       // of a key: 16 bytes each
#define STAGED_WORDS (ROW_WORDS + 1)   // neighbouring rows begin in different banks
#define SLICES (GROUP / VECS)
#define AHEAD 8                        // rows of v that an item loads at once
#define CHUNKS 8                       // of a block's scores, for the maximum
#define FINITE_LOW -1e30f  // below every score; finite: a difference of infinities would be NaN

float4 even_floats(uint4 pairs) { return as_float4(pairs << 16); }
float4 odd_floats(uint4 pairs) { return as_float4(pairs & 0xffff0000u); }

// scores [HEADS] = queries . row. queries [HEADS, E]: of each eight elements first those with an
// even index.
__attribute__((always_inline)) void scores_of(float* scores, __local const float4* queries,
                                              __local const uint4* row) {
  float4 sums[HEADS];
#pragma unroll
  for (int j = 0; j < HEADS; ++j) sums[j] = 0.0f;
#pragma unroll 4
  for (int c = 0; c < ROW_WORDS; ++c) {
    const uint4 pairs = row[c];
    const float4 even = even_floats(pairs), odd = odd_floats(pairs);
#pragma unroll
    for (int j = 0; j < HEADS; ++j) {
      sums[j] = fma(queries[j * VECS + 2 * c], even, sums[j]);
      sums[j] = fma(queries[j * VECS + 2 * c + 1], odd, sums[j]);
    }
  }
#pragma unroll
  for (int j = 0; j < HEADS; ++j) {
    scores[j] = dot(sums[j], (float4)(1.0f));
    CAP_SCORES(scores[j], 1.0f);
  }
}

// maxima [HEADS, CHUNKS] of scores [HEADS, GROUP].
void write_maxima(__local float* maxima, __local const float* scores) {
  for (int i = (int)get_local_id(0); i < HEADS * CHUNKS; i += GROUP) {
    __local const float* own = scores + i * (GROUP / CHUNKS);
    float largest = own[0];
#pragma unroll
    for (int n = 1; n < GROUP / CHUNKS; ++n) largest = fmax(largest, own[n]);
    maxima[i] = largest;
  }
}

__attribute__((reqd_work_group_size(GROUP, 1, 1))) __kernel void attention_decode_staged(
    __global float* parts, __global const STORED(X_TYPE)* q, __global const ushort* k,
    __global const ushort* v, __global const int* first, __global const int* last,
    PAGE_TABLE_PARAMETERS AttentionProblem problem) {
  __local uint4 staged[GROUP * (STAGED_WORDS > HEADS ? STAGED_WORDS : HEADS)];
  __local float4 queries[HEADS * VECS];
  __local float scores[HEADS * GROUP], maxima[HEADS * CHUNKS], totals[HEADS * GROUP];
  const int item = (int)get_local_id(0), h = (int)get_group_id(1) * HEADS, G = problem.G;
  const int slice = item / VECS, column = item - slice * VECS;
  const long t = get_group_id(0) / SPLITS, row = t * problem.H + h;
  const int split = (int)(get_group_id(0) - t * SPLITS);
  FIND_PAGES(t)
  const long k_step = (long)G * HEAD_DIM, head = (long)(h / (problem.H / G)) * HEAD_DIM;
  const int share = (last[t] - first[t]) / SPLITS + 1;
  // clc: allow index-overflow of a number of keys
  const int begin = first[t] + split * share, end = min(last[t] + 1, begin + share);
  for (int i = item; i < HEADS * HEAD_DIM; i += GROUP) {
    const int e = i % 8;
    const int place = i - e + e / 2 + e % 2 * 4;
    ((__local float*)queries)[place] = LOAD_ONE(X_TYPE, q, row * HEAD_DIM + i) * problem.scale;
  }

  float4 sums[HEADS];
  float running_max[HEADS], own_total[HEADS];
#pragma unroll
  for (int j = 0; j < HEADS; ++j) {
    sums[j] = 0.0f;
    running_max[j] = FINITE_LOW;
    own_total[j] = 0.0f;
  }
  for (int block = begin; block < end; block += GROUP) {
    const int keys = min(GROUP, end - block);
#pragma unroll 8
    for (int i = item; i < keys * ROW_WORDS; i += GROUP) {
      const int n = i / ROW_WORDS, c = i - n * ROW_WORDS;
      __global const ushort* from = k + KEY_ROW(block + n) * k_step + head;
      staged[n * STAGED_WORDS + c] = ((__global const uint4*)from)[c];
    }
    barrier(CLK_LOCAL_MEM_FENCE);  // keys and queries are there; the last weights have been read
    float own[HEADS];
#pragma unroll
    for (int j = 0; j < HEADS; ++j) own[j] = FINITE_LOW;
    if (item < keys) scores_of(own, queries, staged + item * STAGED_WORDS);
#pragma unroll
    for (int j = 0; j < HEADS; ++j) scores[j * GROUP + item] = own[j];
    barrier(CLK_LOCAL_MEM_FENCE);  // all scores are written, and the keys have been read
    write_maxima(maxima, scores);
    barrier(CLK_LOCAL_MEM_FENCE);  // all maxima are written, and the scores have been read
#pragma unroll
    for (int j = 0; j < HEADS; ++j) {
      float new_max = running_max[j];
#pragma unroll
      for (int c = 0; c < CHUNKS; ++c) new_max = fmax(new_max, maxima[j * CHUNKS + c]);
      const float factor = exp(running_max[j] - new_max);
      const float weight = item < keys ? exp(own[j] - new_max) : 0.0f;
      scores[j * GROUP + item] = weight;
      own_total[j] = fma(own_total[j], factor, weight);
      sums[j] *= factor;
      running_max[j] = new_max;
    }
    barrier(CLK_LOCAL_MEM_FENCE);  // all weights are written
    for (int n = slice * AHEAD; n < keys && slice < SLICES; n += SLICES * AHEAD) {
      float4 values[AHEAD];
#pragma unroll
      for (int a = 0; a < AHEAD; ++a) {  // past the end, the last one, with weight 0
        const int key = block + min(n + a, keys - 1);
        values[a] = LOAD_VEC(bf16, v + KEY_ROW(key) * k_step + head, column);
      }
#pragma unroll
      for (int j = 0; j < HEADS; ++j) {
        __local const float4* weights = (__local const float4*)(scores + j * GROUP + n);
        const float4 low = weights[0], high = weights[1];
        sums[j] = fma((float4)(low.x), values[0], sums[j]);
        sums[j] = fma((float4)(low.y), values[1], sums[j]);
        sums[j] = fma((float4)(low.z), values[2], sums[j]);
        sums[j] = fma((float4)(low.w), values[3], sums[j]);
        sums[j] = fma((float4)(high.x), values[4], sums[j]);
        sums[j] = fma((float4)(high.y), values[5], sums[j]);
        sums[j] = fma((float4)(high.z), values[6], sums[j]);
        sums[j] = fma((float4)(high.w), values[7], sums[j]);
      }
    }
  }

  __local float4* slices = (__local float4*)staged;  // [HEADS, SLICES, VECS]
#pragma unroll
  for (int j = 0; j < HEADS; ++j) {
    totals[j * GROUP + item] = own_total[j];
    if (slice < SLICES) slices[(j * SLICES + slice) * VECS + column] = sums[j];
    if (item == 0) maxima[j] = running_max[j];
  }
  barrier(CLK_LOCAL_MEM_FENCE);  // the sums of all slices, and the totals, are written
  for (int i = item; i < HEADS * HEAD_DIM; i += GROUP) {
    const int j = i / HEAD_DIM, e = i - j * HEAD_DIM;
    __local const float* of_head = (__local const float*)(slices + j * SLICES * VECS);
    float sum = 0.0f;
    for (int n = 0; n < SLICES; ++n) sum += of_head[n * HEAD_DIM + e];
    parts[((row + j) * SPLITS + split) * (HEAD_DIM + 2) + e] = sum;
  }
  if (item >= HEADS) return;
  float total = 0.0f;
  for (int n = 0; n < GROUP; ++n) total += totals[item * GROUP + n];
  __global float* part = parts + ((row + item) * SPLITS + split) * (HEAD_DIM + 2);
  part[HEAD_DIM] = maxima[item];
  part[HEAD_DIM + 1] = total;
}
