// rope for CPU devices: rotates each pair (a, b) of a head to (a c - b s, a s + b c), with cosine c
// and sine s of the token's position and the pair. The gradient rotates back: sign -1 makes s -s.
// Shapes: x, y [tokens, heads, head_dim]; positions [tokens], below 0 as 0; table [P, half_dim, 2]
//   (cosine, sine). Only the first 2 half_dim elements of a head are rotated; the others keep their
//   values
// Types: f32, positions i32
// Work: a work-group of one item owns an even share of the tokens. 16 angles at a time are
//   deinterleaved once for all heads of the token; the pairs after the last full 16 are rotated one
//   by one. Pair i of a head is the elements i * stride and i * stride + partner;
//   (stride, partner) is (1, half_dim) in the half_split layout and (2, 1) in the interleaved
//   layout
// Local: none
// Cost: reads x, the table row of each token and positions, writes y; 6 flops per pair
// Numerics: two products and a sum per element. A pair is read before it is written: y may alias x
//! clc: build on cpu:
#include "group_range.clh"
#include "rowwise/rope_rotate_cpu.clh"

__attribute__((reqd_work_group_size(1, 1, 1))) __kernel void rope(
    __global float* y, __global const float* x, __global const int* positions,
    __global const float* table, long tokens, int heads, int head_dim, int half_dim, int stride,
    int partner, float sign) {
  const long width = (long)heads * head_dim;
  const long end = group_end(tokens);
  for (long t = group_begin(tokens); t < end; ++t) {
    rotate_token(y + t * width, x + t * width, table + (long)max(positions[t], 0) * 2 * half_dim,
                 heads, head_dim, half_dim, stride, partner, sign);
  }
}
