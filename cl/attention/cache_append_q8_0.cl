// cache_append_q8_0: rows of keys or values at their positions of a KV cache in 8 bits
// (q8_0_blocks.clh).
//   cache[positions[t]] = rows[t]
//
// Shapes  cache [S, G, E] of q8_0, rows [T, G, E], positions [T] i32; G E a multiple of 32; a
//         position outside [0, S) is skipped
// Types   rows of -D X_TYPE: f32, bf16 or f16
// Work    an item owns a block of 32 elements
// Local   none
// Cost    reads the rows once, writes 34 bytes for each 32 elements
// Numerics  as in q8_0_blocks.clh
//! clc: build X_TYPE={f32,bf16,f16}
//! clc: budget on gfx90a registers<=72 spills=0
#include "q8_0_blocks.clh"

__kernel void cache_append_q8_0(__global ushort* cache, __global const STORED(X_TYPE)* rows,
                                __global const int* positions, int S, int row_blocks) {
  const int b = get_global_id(0);
  const long t = get_global_id(1);
  const int position = positions[t];
  if (b >= row_blocks || position < 0 || position >= S) return;
  __global const STORED(X_TYPE)* from = rows + (t * row_blocks + b) * Q8_0_BLOCK;
  float values[Q8_0_BLOCK];
  for (int i = 0; i < Q8_0_BLOCK; ++i) values[i] = LOAD_ONE(X_TYPE, from, i);
  store_q8_0(cache + ((long)position * row_blocks + b) * Q8_0_WORDS, values);
}
