// grouped_gradient: the adapter gradients of experts.
//
//   out_e [R, N] += scale * the sum over the slots of expert e of s[slot, :]^T x[row of slot, :]
//
// Shapes: s [S, R]; x [S, N], or with -D GATHER [T, N], whose rows are those of the slots' entries;
//   out_e at offsets[e] of the flat buffer, or nowhere; entries, counts and begins as in router.cl
// Types: x of -D X_TYPE, f32, bf16 or f16; all else f32
// Work: a work-group of GROUP items owns GROUP * VEC_SIZE columns and RANKS rows of out_e; an item
//   VEC_SIZE columns
// Local: none
// Cost: 2 S R N flops; x is read R / RANKS times
// Numerics: f32 fma in the order of the slots
//! clc: build VEC_SIZE={1,4,8} GROUP={1,64} X_TYPE={f32,bf16}
//! clc: build VEC_SIZE=4 GROUP=64 X_TYPE=f32 GATHER
#include "activations.clh"
#include "experts/expert_offsets.clh"

#if !defined(X_TYPE) || !defined(GROUP)
#error "X_TYPE and GROUP are required"
#endif
#define RANKS 8

// N is in vectors.
__attribute__((reqd_work_group_size(GROUP, 1, 1))) __kernel void grouped_gradient(
    __global float* out, __global const float* s, __global const STORED(X_TYPE)* x,
    __global const int* entries, __global const int* counts, __global const int* begins,
    __global const uint* offsets, uint R, uint N, uint K, float scale) {
  const uint expert = get_group_id(2), r0 = get_group_id(1) * RANKS;
  const uint n = get_group_id(0) * GROUP + get_local_id(0);
  if (offsets[expert] == NO_OFFSET || n >= N) return;
  const uint begin = begins[expert], end = begin + counts[expert];
  vec sums[RANKS];
#pragma unroll
  for (uint r = 0; r < RANKS; ++r) sums[r] = 0.0f;
  for (uint slot = begin; slot < end; ++slot) {
#ifdef GATHER
    const size_t row = (uint)entries[slot] / K;
#else
    const size_t row = slot;
#endif
    const vec inputs = LOAD_VEC(X_TYPE, x, row * N + n);
#pragma unroll
    for (uint r = 0; r < RANKS; ++r) {
      const float factor = s[(size_t)slot * R + min(r0 + r, R - 1)];
      sums[r] = fma((vec)(factor), inputs, sums[r]);
    }
  }
  __global float* of_expert = out + offsets[expert];
#pragma unroll
  for (uint r = 0; r < RANKS; ++r) {
    if (r0 + r >= R) continue;
    const size_t at = (size_t)(r0 + r) * N + n;
    STORE_VEC(f32, of_expert, (long)at, fma((vec)(scale), sums[r], LOAD_VEC(f32, of_expert, at)));
  }
}
