// lora_linear_cpu: the gradients of an adapter's matrices on CPU devices.
//
//   out [R, K] += scale * s [T, R]^T x [T, K]
// Shapes  as in the formula
// Types   f32
// Work    a work-group of one item owns 32 columns of out and walks over the T rows, 256 at a time,
//         so that its columns of x are still cached when the next 8 rows of out read them.
// Local   none
// Tiles      T rows: s^T |8| x |32|  ->  8 x 32 sums, in one to eight micro-tiles
// Cost    2 T R K flops; x is read once
// Numerics  f32 fma over t in order, added to out every 256 rows: bitwise reproducible
//! clc: build on cpu: COLUMNS=32
//! clc: build on cpu: COLUMNS=32 VECTOR_FLOATS={8,4} VECTOR_REGISTERS={16,32}
#include "vectors_cpu.clh"

#ifndef COLUMNS
#error "COLUMNS, which is 32, is required: the host makes one group for as many"
#endif
#define RANKS 8
#define ROWS_AT_ONCE 256

// Micro-tiles of two vectors a rank, whose sums fit the registers.
#if VECTOR_REGISTERS == 32
#define MICRO_RANKS 8
#define EACH_RANK(F) F(0) F(1) F(2) F(3) F(4) F(5) F(6) F(7)
#else
#define MICRO_RANKS 4
#define EACH_RANK(F) F(0) F(1) F(2) F(3)
#endif
#define MICRO_COLUMNS (2 * VECTOR_FLOATS)
#define RANK_SUMS(i) FLOATS lo##i = 0.0f, hi##i = 0.0f;
#define RANK_STEP(i)                        \
  {                                         \
    const FLOATS at = (FLOATS)(factors[i]); \
    lo##i = fma(at, x_lo, lo##i);           \
    hi##i = fma(at, x_hi, hi##i);           \
  }
#define RANK_SAVE(i)                               \
  store_vector(__private, sums + i * COLUMNS, lo##i); \
  store_vector(__private, sums + i * COLUMNS + VECTOR_FLOATS, hi##i);

__attribute__((noinline)) void gradient_micro(float* sums, __global const float* s,
                                              __global const float* x, uint T, uint R, uint K) {
  EACH_RANK(RANK_SUMS)
  for (uint t = 0; t < T; ++t) {
    __global const float* factors = s;
    const FLOATS x_lo = load_vector(x), x_hi = load_vector(x + VECTOR_FLOATS);
    EACH_RANK(RANK_STEP)
    s += R;
    x += K;
  }
  EACH_RANK(RANK_SAVE)
}

// sums[i][c] = sum over t of s[t][i] x[t][c]; s and x point to the tile's first row and column.
void gradient_full(float* sums, __global const float* s, __global const float* x, uint T, uint R,
                   uint K) {
  for (uint c = 0; c < COLUMNS; c += MICRO_COLUMNS) {
    for (uint i = 0; i < RANKS; i += MICRO_RANKS) {
      gradient_micro(sums + i * COLUMNS + c, s + i, x + c, T, R, K);
    }
  }
}

// The same if fewer than 8 rows or 32 columns are left.
__attribute__((noinline)) void gradient_edge(float* sums, __global const float* s,
                                             __global const float* x, uint T, uint R, uint K,
                                             uint ranks, uint columns) {
  float16 lo[RANKS], hi[RANKS];
  for (uint i = 0; i < RANKS; ++i) lo[i] = hi[i] = 0.0f;
  float strip[COLUMNS];
  for (uint c = 0; c < COLUMNS; ++c) strip[c] = 0.0f;
  for (uint t = 0; t < T; ++t) {
    for (uint c = 0; c < columns; ++c) strip[c] = x[c];
    const float16 x_lo = vload16(0, strip), x_hi = vload16(1, strip);
    for (uint i = 0; i < ranks; ++i) {
      lo[i] = fma((float16)(s[i]), x_lo, lo[i]);
      hi[i] = fma((float16)(s[i]), x_hi, hi[i]);
    }
    s += R;
    x += K;
  }
  for (uint i = 0; i < ranks; ++i) {
    vstore16(lo[i], 0, sums + i * COLUMNS);
    vstore16(hi[i], 1, sums + i * COLUMNS);
  }
}

__attribute__((reqd_work_group_size(1, 1, 1))) __kernel void lora_gradient(
    __global float* out, __global const float* s, __global const float* x, uint T, uint R, uint K,
    float scale) {
  const uint k0 = get_group_id(0) * COLUMNS;
  const uint columns = min(K - k0, (uint)COLUMNS);
  float sums[RANKS * COLUMNS];
  for (uint t0 = 0; t0 < T; t0 += ROWS_AT_ONCE) {
    const uint rows = min(T - t0, (uint)ROWS_AT_ONCE);
    __global const float* strip = x + (size_t)t0 * K + k0;
    for (uint r0 = 0; r0 < R; r0 += RANKS) {
      const uint ranks = min(R - r0, (uint)RANKS);
      __global const float* factors = s + (size_t)t0 * R + r0;
      if (ranks == RANKS && columns == COLUMNS) {
        gradient_full(sums, factors, strip, rows, R, K);
      } else {
        gradient_edge(sums, factors, strip, rows, R, K, ranks, columns);
      }
      for (uint i = 0; i < ranks; ++i) {
        __global float* row = out + (size_t)(r0 + i) * K + k0;
        for (uint c = 0; c < columns; ++c) row[c] += scale * sums[i * COLUMNS + c];
      }
    }
  }
}
