// rope, portable: rotates each pair (a, b) of a head to (a c - b s, a s + b c), with cosine c and
// sine s of the token's position and the pair. The gradient rotates back: sign -1 makes s -s.
//
//   rope            y = rotated x; with -D OF_TWO also more_y = rotated more_x
//   rope_of_parts   rotates queries in place; a head of keys is the rotated sum of its H / G heads
//                   of key_parts, and a head of values is the sum of those of value_parts
// Shapes: x, y, queries, key_parts, value_parts [T, H, E]; more_x, more_y, keys, values [T, G, E];
//   positions [T]; table [P, E/2, 2] (cosine, sine). In rope, only the first 2 half_dim elements of
//   a head of head_dim = E are rotated, with a table [P, half_dim, 2]; the others keep their values.
//   more_table and key_table are the tables of more_x and of keys, which may be `table`
// Types: f32, bf16 or f16 (-D X_TYPE), except table f32 and positions i32
// Work: one work-item per VEC_SIZE consecutive pairs of a head; VEC_SIZE divides E/2. The order is
//   [T, H + G, E/2], or in rope_of_parts keys and values, [2, T, G, E/2], before queries,
//   [T, H, E/2]. Pair i of a head is the elements i * stride and i * stride + partner;
//   (stride, partner) is (1, E/2) in the half_split layout and (2, 1) in the interleaved layout.
//   REQUIRES: less than 2^31 pairs
// Cost: reads x, the table row of each token and positions, writes y; 6 flops per pair
// Numerics: two products and a sum per element; parts are added in f32, in order. One item reads
//   and writes a pair: y may alias x. With -D IN_PLACE it is x, and there is no argument x
//! clc: build X_TYPE={f32,bf16,f16} VEC_SIZE={1,4}
//! clc: build X_TYPE={f32,bf16} VEC_SIZE=4 IN_PLACE OF_TWO
//! clc: budget on gfx90a registers<=80 spills=0
#include "rowwise/rope_pairs.clh"

#ifdef IN_PLACE
#define INPUT(x)
#define INPUT_OF(x, y) (y)
#else
#define INPUT(x) __global const STORED(X_TYPE)* x,
#define INPUT_OF(x, y) (x)
#endif
#ifdef OF_TWO
#define MORE(y, x) __global STORED(X_TYPE)* y, INPUT(x)
#define MORE_TABLE(table) __global const float* table,
#else
#define MORE(y, x)
#define MORE_TABLE(table)
#endif

__kernel void rope(__global STORED(X_TYPE)* y, INPUT(x) MORE(more_y, more_x)
                   __global const int* positions, __global const float* table,
                   MORE_TABLE(more_table) uint pairs, uint heads, uint more_heads, uint head_dim,
                   uint half_dim, int stride, uint partner, float sign) {
  const uint item = (uint)get_global_id(0);
  if (item >= pairs / VEC_SIZE) return;
  const uint vecs = half_dim / VEC_SIZE;
  const uint row = item / vecs;
  const uint own = item - row * vecs;
  const uint token = row / (heads + more_heads);
  uint head = row - token * (heads + more_heads);
  __global const STORED(X_TYPE)* from = INPUT_OF(x, y);
#ifdef OF_TWO
  if (head >= heads) {
    head -= heads;
    heads = more_heads;
    from = INPUT_OF(more_x, more_y);
    y = more_y;
    table = more_table;
  }
#endif
  const int apart = stride == 1;
  const long begin = ((long)token * heads + head) * (head_dim / VEC_SIZE);
  const long first = first_of(begin, own, apart);
  const long second = second_of(first, partner, apart);
  store_pairs(y, first, second,
              rotated(pairs_at(from, first, second), positions, table, token, own, vecs, sign,
                      apart));
}

__kernel void rope_of_parts(__global STORED(X_TYPE)* queries, __global STORED(X_TYPE)* keys,
                            __global STORED(X_TYPE)* values,
                            __global const STORED(X_TYPE)* key_parts,
                            __global const STORED(X_TYPE)* value_parts,
                            __global const int* positions, __global const float* table,
                            __global const float* key_table, uint pairs, uint tokens, uint heads,
                            uint key_heads, uint half_dim, int stride, uint partner, float sign) {
  const uint item = (uint)get_global_id(0);
  if (item >= pairs / VEC_SIZE) return;
  const uint vecs = half_dim / VEC_SIZE;
  const uint own = item % vecs;
  const int apart = stride == 1;
  uint row = item / vecs;
  const uint key_rows = tokens * key_heads;
  if (row >= 2 * key_rows) {
    row -= 2 * key_rows;
    const long first = first_of(2 * (long)row * vecs, own, apart);
    const long second = second_of(first, partner, apart);
    store_pairs(queries, first, second,
                rotated(pairs_at(queries, first, second), positions, table, row / heads, own, vecs,
                        sign, apart));
    return;
  }
  const bool of_values = row >= key_rows;
  if (of_values) row -= key_rows;
  const uint parts = heads / key_heads;
  __global const STORED(X_TYPE)* from = of_values ? value_parts : key_parts;
  const long first_part = first_of(2 * (long)row * parts * vecs, own, apart);
  const long second_part = second_of(first_part, partner, apart);
  two_vecs sum = pairs_at(from, first_part, second_part);
#pragma unroll 4
  for (uint h = 1; h < parts; ++h) {
    const long further = 2 * (long)h * vecs;
    sum += pairs_at(from, first_part + further, second_part + further);
  }
  if (!of_values) {
    sum = rotated(sum, positions, key_table, row / key_heads, own, vecs, sign, apart);
  }
  const long first = first_of(2 * (long)row * vecs, own, apart);
  store_pairs(of_values ? values : keys, first, second_of(first, partner, apart), sum);
}
