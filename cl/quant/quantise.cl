// quantise: rows of activations in blocks of 8-bit integers with an f16 scale: d = max |x| / 127,
// q = round(x / d), as ggml's block_q8_0.
//
// Shapes  x [T, N], y [T, N] of q8_0; as one flat range, since N is a multiple of 32
// Types   x f32, bf16 or f16 (-D X_TYPE)
// Work    a work-item owns a block of 32 elements
// Local   none
// Cost    reads x once, writes 34 bytes for each 32 elements
// Numerics  the error of an element is at most d / 2, and that of rounding d to f16: x is divided by
//         the stored scale. Scales below the smallest f16, and values that are not finite: as in
//         q8_0_blocks.clh
//! clc: build X_TYPE={f32,bf16,f16}
//! clc: budget on gfx90a registers<=72 spills=0
#include "q8_0_blocks.clh"

__kernel void quantise(__global ushort* restrict y, __global const STORED(X_TYPE)* restrict x,
                       ulong blocks) {
  const size_t b = get_global_id(0);
  if (b >= blocks) return;
  float values[Q8_0_BLOCK];
  for (int i = 0; i < Q8_0_BLOCK; ++i) values[i] = LOAD_ONE(X_TYPE, x, b * Q8_0_BLOCK + i);
  store_q8_0(y + b * Q8_0_WORDS, values);
}
