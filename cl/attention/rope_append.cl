// rope_append, portable: rotates the queries and keys of a step in place (rowwise/rope.cl), and
// writes keys and values to their rows of a KV cache (attention.cl).
//   key_cache[slots[t]] = rotated keys[t]
//   value_cache[slots[t]] = values[t]
// Shapes: queries [T, H, E]; keys, values [T, G, E]; key_cache, value_cache [S, G, E]; positions,
//   slots [T]; table, key_table [P, half_dim, 2] (cosine, sine). Only the first 2 half_dim elements
//   of a head of head_dim = E are rotated. A slot outside [0, S) is skipped: nothing is written to
//   the caches
// Types: queries, keys and values of -D X_TYPE, caches of CACHE_TYPE: f32, bf16 or f16; tables f32;
//   positions and slots i32
// Work: one work-item per VEC_SIZE consecutive pairs of a head; VEC_SIZE divides half_dim and E/2.
//   The order is [T, H + 2 G, E/2]: queries, keys, values. Pair i of a head is the elements
//   i * stride and i * stride + partner; (stride, partner) is (1, half_dim) in the half_split
//   layout and (2, 1) in the interleaved one. Elements that are not rotated are paired with their
//   neighbours. REQUIRES: less than 2^31 pairs
// Cost: reads queries, keys, values and the tables' rows of each token, writes queries, keys and
//   the caches' rows; 6 flops per rotated pair
// Numerics: the same bits as rope and then cache_append: two products and a sum per element,
//   rounded to X_TYPE and then to CACHE_TYPE
//! clc: build X_TYPE={f32,bf16,f16} CACHE_TYPE={f32,bf16,f16} VEC_SIZE={1,4}
//! clc: build X_TYPE=bf16 CACHE_TYPE=bf16 VEC_SIZE=8
//! clc: budget on gfx90a registers<=80 spills=0
#include "rowwise/rope_pairs.clh"

vec to_f32(vec x) { return x; }
#define ROUNDED(type, x) AS_VEC(type, JOINED(to_, type)(x))

__kernel void rope_append(__global STORED(X_TYPE)* queries, __global STORED(X_TYPE)* keys,
                          __global const STORED(X_TYPE)* values,
                          __global STORED(CACHE_TYPE)* key_cache,
                          __global STORED(CACHE_TYPE)* value_cache, __global const int* positions,
                          __global const int* slots, __global const float* table,
                          __global const float* key_table, uint pairs, uint heads, uint key_heads,
                          uint head_dim, uint half_dim, int stride, uint partner, int cache_rows) {
  const uint item = (uint)get_global_id(0);
  if (item >= pairs / VEC_SIZE) return;
  const uint head_vecs = head_dim / VEC_SIZE, rotated_vecs = half_dim / VEC_SIZE;
  const uint row = item / (head_vecs / 2);
  const uint own = item - row * (head_vecs / 2);
  const uint token = row / (heads + 2 * key_heads);
  uint head = row - token * (heads + 2 * key_heads);
  const bool of_queries = head < heads;
  if (!of_queries) head -= heads;
  const bool of_values = !of_queries && head >= key_heads;
  if (of_values) head -= key_heads;
  const bool rotates = !of_values && own < rotated_vecs;

  __global STORED(X_TYPE)* rotated_rows = of_queries ? queries : keys;
  __global const STORED(X_TYPE)* rows = of_values ? values : rotated_rows;
  const uint row_heads = of_queries ? heads : key_heads;
  // Where the two vectors are in their head.
  const int apart = stride == 1;
  const long first = rotates ? first_of(0, own, apart) : 2 * own;
  const long second = rotates ? second_of(first, partner, apart) : first + 1;
  const long begin = ((long)token * row_heads + head) * head_vecs;
  two_vecs both = pairs_at(rows, begin + first, begin + second);
  if (rotates) {
    both = rotated(both, positions, of_queries ? table : key_table, token, own, rotated_vecs, 1.0f,
                   apart);
    store_pairs(rotated_rows, begin + first, begin + second, both);
  }
  const int slot = slots[token];
  if (of_queries || slot < 0 || slot >= cache_rows) return;
  __global STORED(CACHE_TYPE)* cache = of_values ? value_cache : key_cache;
  const long into = ((long)slot * key_heads + head) * head_vecs;
  STORE_VEC(CACHE_TYPE, cache, into + first, ROUNDED(X_TYPE, both.lo));
  STORE_VEC(CACHE_TYPE, cache, into + second, ROUNDED(X_TYPE, both.hi));
}
