// grouped_shrink: the first low-rank factor of rows with several adapters.
//
//   s [M, R] = scale * x [M, K] a[adapter of the row] [R, K]^T
//
// Shapes  as above; a [adapters, R, K]; row_groups [M, 2] (gemm_epilogue.clh)
// Types   x and s of -D X_TYPE and S_TYPE, f32, bf16 or f16; a f32
// Work    a work-group owns RANKS elements of one row of s; GROUP=1, for CPUs: an item each. Rows
//         without an adapter are not written.
// Local   scratch for the items' sums
// Cost    2 M R K flops; reads a row of x R / RANKS times, and a for each row, from the cache
// Numerics  f32 fma in items' sums, then over the items; the same bits every run
// -D K_OF_FOURS: rows of K elements are aligned to four elements.
//! clc: build GROUP={1,64} X_TYPE=f32 S_TYPE=f32 K_OF_FOURS
//! clc: build GROUP=64 X_TYPE=bf16 S_TYPE=bf16
#define VEC_SIZE 4
#define RANKS 4
#include "activations.clh"
#include "gemm/gemm_epilogue.clh"
#include "team_sums.clh"

#if !defined(X_TYPE) || !defined(S_TYPE)
#error "X_TYPE and S_TYPE, f32, bf16 or f16, are required"
#endif

// sums [RANKS] += this item's steps of a row of x times rows r, r + 1, ... of a; past R, the last.
void add_dots(float* sums, __global const STORED(X_TYPE)* x, __global const float* a, uint K,
              uint R, uint r) {
#ifdef K_OF_FOURS
  float4 fours[RANKS] = {0.0f, 0.0f, 0.0f, 0.0f};
  for (uint k = get_local_id(0); k < K / 4; k += GROUP) {
    const float4 inputs = LOAD_VEC(X_TYPE, x, k);
    for (uint j = 0; j < RANKS; ++j) {
      const float4 factors = vload4(k, a + (size_t)min(r + j, R - 1) * K);
      fours[j] = fma(inputs, factors, fours[j]);
    }
  }
  for (uint j = 0; j < RANKS; ++j) {
    sums[j] = (fours[j].x + fours[j].y) + (fours[j].z + fours[j].w);
  }
#else
  for (uint k = get_local_id(0); k < K; k += GROUP) {
    const float input = LOAD_ONE(X_TYPE, x, k);
    for (uint j = 0; j < RANKS; ++j) {
      sums[j] = fma(input, a[(size_t)min(r + j, R - 1) * K + k], sums[j]);
    }
  }
#endif
}

__attribute__((reqd_work_group_size(GROUP, 1, 1))) __kernel void grouped_shrink(
    __global STORED(S_TYPE)* s, __global const STORED(X_TYPE)* x, __global const float* a,
    __global const uint* row_groups, uint K, uint R, float scale) {
  const uint m = get_group_id(0), r = get_group_id(1) * RANKS;
  const uint adapter = row_adapter(row_groups, m);
  if (adapter == NO_ADAPTER) return;  // all items of the group
  float sums[RANKS] = {0.0f, 0.0f, 0.0f, 0.0f};
  add_dots(sums, x + (size_t)m * K, a + (size_t)adapter * R * K, K, R, r);
#if GROUP == 1
  for (uint j = 0; j < RANKS && r + j < R; ++j) {
    STORE_ONE(S_TYPE, s, (size_t)m * R + r + j, scale * sums[j]);
  }
#else
  __local float scratch[TEAM_SCRATCH(RANKS)];
  const float sum = team_sums(sums, RANKS, GROUP, scratch);
  const uint j = get_local_id(0);
  if (j < RANKS && r + j < R) STORE_ONE(S_TYPE, s, (size_t)m * R + r + j, scale * sum);
#endif
}
