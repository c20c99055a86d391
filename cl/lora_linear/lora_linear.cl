// lora_linear: the gradients of an adapter's matrices, on any device. The other parts of the layer
// are products (gemm.cl).
//
//   out [R, K] += scale * s [T, R]^T x [T, K]
// There are two launches: lora_gradient_parts sums each chunk of the T rows, and lora_gradient_sum
// adds the chunks.
// Shapes  as in the formula; parts [chunks][R][K]
// Types   f32; x f32, bf16 or f16 (-D X_TYPE)
// Work    parts: a work-group of COLUMNS items owns COLUMNS columns and RANKS rows of out and a
//         chunk of chunk_rows rows of s and x; an item owns one column. sum: an item owns one
//         element.
// Local   STEPS rows of s [STEPS][RANKS]
// Tiles      a chunk of rows: s^T |#| x  |########|   ->  parts tile [RANKS][COLUMNS], in registers
// Cost    2 T R K flops; x is read R / RANKS times, parts are written and read once
// Numerics  f32 fma over t in order, chunks added in order: bitwise reproducible
//! clc: build COLUMNS=128 RANKS=16 STEPS=64 X_TYPE={f32,bf16,f16}
//! clc: build COLUMNS=1 RANKS=1 STEPS=1 X_TYPE=f32
//! clc: budget on gfx90a registers<=64 spills=0
#if !defined(COLUMNS) || !defined(RANKS) || !defined(STEPS) || !defined(X_TYPE)
#error "COLUMNS, RANKS, STEPS and X_TYPE are required"
#endif
#include "elements.clh"

__attribute__((reqd_work_group_size(COLUMNS, 1, 1))) __kernel void lora_gradient_parts(
    __global float* parts, __global const float* s, __global const STORED(X_TYPE)* x, uint T, uint R,
    uint K, uint chunk_rows) {
  __local float s_tile[STEPS][RANKS];
  const uint item = get_local_id(0), chunk = get_group_id(1);
  const uint k = get_group_id(0) * COLUMNS + item, r0 = get_group_id(2) * RANKS;
  const uint end = min(T, (chunk + 1) * chunk_rows);
  float sums[RANKS];
  for (uint r = 0; r < RANKS; ++r) sums[r] = 0.0f;
  for (uint begin = chunk * chunk_rows; begin < end; begin += STEPS) {
    const uint steps = min((uint)STEPS, end - begin);
    for (uint e = item; e < STEPS * RANKS; e += COLUMNS) {
      const uint t = begin + e / RANKS, r = r0 + e % RANKS;
      s_tile[e / RANKS][e % RANKS] = t < end && r < R ? s[(size_t)t * R + r] : 0.0f;
    }
    barrier(CLK_LOCAL_MEM_FENCE);  // the tile is complete
    if (k < K) {
      __global const STORED(X_TYPE)* column = x + (size_t)begin * K + k;
      for (uint t = 0; t < steps; ++t) {
        const float at = LOAD_ONE(X_TYPE, column, (size_t)t * K);
        for (uint r = 0; r < RANKS; ++r) sums[r] = fma(s_tile[t][r], at, sums[r]);
      }
    }
    barrier(CLK_LOCAL_MEM_FENCE);  // the tile is read before the next rows overwrite it
  }
  if (k >= K) return;
  for (uint r = 0; r < RANKS && r0 + r < R; ++r) {
    parts[((size_t)chunk * R + r0 + r) * K + k] = sums[r];
  }
}

__kernel void lora_gradient_sum(__global float* out, __global const float* parts, uint elements,
                                uint chunks, float scale) {
  const uint i = get_global_id(0);
  if (i >= elements) return;
  float sum = 0.0f;
  for (uint chunk = 0; chunk < chunks; ++chunk) sum += parts[(size_t)chunk * elements + i];
  out[i] += scale * sum;
}
