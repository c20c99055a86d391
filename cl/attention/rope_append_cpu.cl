// rope_append for CPU devices: rotates the queries and keys of a step in place, and writes keys and
// values to their rows of a KV cache.
//   key_cache[slots[t]] = rotated keys[t]
//   value_cache[slots[t]] = values[t]
// Shapes: queries [tokens, heads, head_dim]; keys, values [tokens, key_heads, head_dim]; key_cache,
//   value_cache [cache_rows, key_heads, head_dim]; positions, slots [tokens]; table, key_table
//   [P, half_dim, 2] (cosine, sine). Only the first 2 half_dim elements of a head are rotated. A
//   slot outside [0, cache_rows) is skipped: nothing is written to the caches
// Types: caches of -D KEY_TYPE: f32, bf16, f16, or q8_0 with head_dim a multiple of 32
//   (q8_0_blocks.clh); positions and slots i32; all else f32
// Work: a work-group of one item owns an even share of the tokens. Pair i of a head is the elements
//   i * stride and i * stride + partner; (stride, partner) is (1, half_dim) in the half_split
//   layout and (2, 1) in the interleaved one
// Local: none
// Cost: reads queries, keys, values and the tables' rows of each token, writes queries, keys and
//   the caches' rows; 6 flops per rotated pair
// Numerics: the same bits as rope and then cache_append (rowwise/rope_rotate_cpu.clh,
//   cache_rows_cpu.clh)
//! clc: build on cpu: KEY_TYPE={f32,bf16,f16,q8_0}
#include "attention/cache_rows_cpu.clh"
#include "group_range.clh"
#include "rowwise/rope_rotate_cpu.clh"

__attribute__((reqd_work_group_size(1, 1, 1))) __kernel void rope_append_cpu(
    __global float* queries, __global float* keys, __global const float* values,
    __global STORED(KEY_TYPE)* key_cache, __global STORED(KEY_TYPE)* value_cache,
    __global const int* positions, __global const int* slots, __global const float* table,
    __global const float* key_table, long tokens, int heads, int key_heads, int head_dim,
    int half_dim, int stride, int partner, int cache_rows) {
  const int key_width = key_heads * head_dim;
  const long end = group_end(tokens);
  for (long t = group_begin(tokens); t < end; ++t) {
    const long angles = (long)max(positions[t], 0) * 2 * half_dim;
    __global float* q = queries + t * heads * head_dim;
    __global float* k = keys + t * key_width;
    rotate_token(q, q, table + angles, heads, head_dim, half_dim, stride, partner, 1.0f);
    rotate_token(k, k, key_table + angles, key_heads, head_dim, half_dim, stride, partner, 1.0f);
    const int slot = slots[t];
    if (slot < 0 || slot >= cache_rows) continue;
    const long into = WORDS(KEY_TYPE, (long)slot * key_width);
    store_cache_row(key_cache + into, k, key_width);
    store_cache_row(value_cache + into, values + t * key_width, key_width);
  }
}
