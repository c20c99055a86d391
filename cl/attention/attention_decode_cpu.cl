// attention for few query rows over many keys, for CPU devices, as in decoding; and cache_append
// for the KV cache.
//   y[t, h] = sum_k p_k v[k, g],  p = softmax_k(scale * q[t, h] . k[k, g]),  g = h / (H / G)
//
// Shapes  q, y [T, H, E]; k, v [Tk, G, E]; first, last [T] i32; log_sum_exp [T, H];
//         parts [T, H, splits, E + 2]: unnormalised sums of v, their maximum, their total
// Types   k, v and cache of -D KEY_TYPE: f32 (without it), bf16, f16, or in pages q8_0 with E a
//         multiple of 32 (q8_0_blocks.clh); all else f32
// Pages   -D PAGE: k and v are a cache of pages (paged_keys.clh)
// Work    attention_decode_cpu: a work-group of one work-item owns one row, one key head with all
//         query heads that share it (so K and V are read from memory once), and one split of the
//         row's keys. attention_join_cpu: a group joins the splits of all heads of one row.
//         cache_append_cpu: a group owns `group_rows` rows.
// Local   attend_split()'s scratch (attention_decode_cpu.clh)
// Cost    4 E flops a (query, key) pair and head; bound by reading k and v once
// Numerics online softmax; only rows of the range are read, so a NaN beyond it is harmless
//! clc: build on cpu: KEYS=64 KEY_TYPE={f32,bf16,f16}
//! clc: build on cpu: KEYS=64 SOFT_CAP=50.0f
//! clc: build on cpu: KEYS=64 KEY_TYPE={f32,bf16,q8_0} PAGE=16
#include "attention/attention_decode_cpu.clh"

__attribute__((reqd_work_group_size(1, 1, 1))) __kernel void attention_decode_cpu(
    __global float* parts, __global const float* q, __global const STORED(KEY_TYPE)* k,
    __global const STORED(KEY_TYPE)* v, __global const int* first, __global const int* last,
    PAGE_TABLE_PARAMETERS int H, int G, int E, float scale, int splits, __local float* scratch) {
  const int unit = get_group_id(0), t = unit / splits / G;
  FIND_PAGES(t)
  attend_split(parts, q, k, v, PAGES_ARGUMENT first, last, H, G, E, scale, splits, unit % splits,
               unit / splits % G, t, scratch);
}

__attribute__((reqd_work_group_size(1, 1, 1))) __kernel void attention_join_cpu(
    __global float* y, __global float* log_sum_exp, __global const float* parts, int H, int E,
    int splits, int keeps_log_sum_exp) {
  for (int h = 0; h < H; ++h) {
    const long row = (long)get_group_id(0) * H + h;
    const float log_sum = join_splits(y + row * E, parts + row * splits * (E + 2), E, splits);
    if (keeps_log_sum_exp) log_sum_exp[row] = log_sum;
  }
}

__attribute__((reqd_work_group_size(1, 1, 1))) __kernel void cache_append_cpu(
    __global STORED(KEY_TYPE)* cache, __global const float* rows, __global const int* positions,
    int T, int S, int width, int group_rows) {
  const int begin = get_group_id(0) * group_rows, end = min(T, begin + group_rows);
  for (int t = begin; t < end; ++t) {
    const int position = positions[t];
    if (position < 0 || position >= S) continue;
    store_cache_row(cache + WORDS(KEY_TYPE, (long)position * width), rows + (long)t * width, width);
  }
}
