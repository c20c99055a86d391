// quantise: rows of activations in blocks of 8-bit integers with an f16 scale: d = max |x| / 127,
// q = round(x / d), as ggml's block_q8_0.
//
// Shapes  x [T, N], y [T, N] of q8_0; as one flat range, since N is a multiple of 32
// Types   x f32, bf16 or f16 (-D X_TYPE)
// Work    a work-item owns a block of 32 elements
// Local   none
// Cost    reads x once, writes 34 bytes for each 32 elements
// Numerics  the error of an element is at most d / 2, and that of rounding d to f16: x is divided by
//         the stored scale. A scale below the smallest f16 gives zeros.
//! clc: build X_TYPE={f32,bf16,f16}
//! clc: budget on gfx90a registers<=64 spills=0
#include "elements.clh"

#define BLOCK 32
#define BLOCK_BYTES 34

// Blocks begin at even addresses, so the integers are written in pairs.
void store_block(__global ushort* block, const float* values, float d) {
  const float inverse = d > 0.0f ? 1.0f / d : 0.0f;
  for (int i = 0; i < BLOCK; i += 2) {
    const int low = (int)rint(values[i] * inverse), high = (int)rint(values[i + 1] * inverse);
    block[1 + i / 2] = (ushort)((low & 0xff) | (high << 8));
  }
}

__kernel void quantise(__global ushort* restrict y, __global const STORED(X_TYPE)* restrict x,
                       ulong blocks) {
  const size_t b = get_global_id(0);
  if (b >= blocks) return;
  float values[BLOCK];
  float largest = 0.0f;
  for (int i = 0; i < BLOCK; ++i) {
    values[i] = LOAD_ONE(X_TYPE, x, b * BLOCK + i);
    largest = fmax(largest, fabs(values[i]));
  }
  __global ushort* block = y + b * (BLOCK_BYTES / 2);
  const ushort scale = f16_of(largest / 127.0f);
  block[0] = scale;
  store_block(block, values, float_of_f16(scale));
}
