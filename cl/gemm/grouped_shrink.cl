// grouped_shrink: the first low-rank factor of products with one input, whose rows have several
// adapters.
//
//   s_i [M, R] = scale * (factor of the row) * x [M, K] a_i[adapter of the row] [R, K]^T
//   with -D WIDE   wide_i [M, adapters * R]: the same values in the columns of the row's adapter,
//                  zeros in all others: wide_i u, with the stack u as one matrix, is the low-rank
//                  term of products that have no row groups
//
// Shapes  as above; a_i [adapters, R, K]; row_groups [M, 4] (gemm_epilogue.clh); -D PROBLEMS=1 to 4
// Types   x, s, a and wide of -D X_TYPE, S_TYPE, A_TYPE and WIDE_TYPE, f32, bf16 or f16
// Work    a work-group owns GROUP_RANKS elements of a row of s_i. The ranks of the row's adapter
//         are computed, RANKS at once; others are zeros. Rows without an adapter are not written,
//         except in wide.
//         GROUP=1, for CPUs: an item sums 16 lanes of a row at once. Otherwise the items of a group
//         take interleaved vectors of the row, and GROUP_RANKS is RANKS.
// Local   scratch for the items' sums
// Cost    2 M R K flops; reads a row of x R / GROUP_RANKS times, and a for each row, from the cache
// Numerics  f32 fma in lanes' sums, then over the lanes and the items: the same bits every run,
//         whatever the other rows are
// -D VEC_SIZE=4 or 8, not for CPUs: rows of K elements are aligned to as many elements.
//! clc: build GROUP=1 GROUP_RANKS=16 X_TYPE=f32 S_TYPE=f32 A_TYPE=f32 PROBLEMS={1,3}
//! clc: build GROUP=64 GROUP_RANKS=4 VEC_SIZE={1,4} X_TYPE=f32 S_TYPE=f32 A_TYPE=f32 PROBLEMS=3
//! clc: build GROUP=64 GROUP_RANKS=4 VEC_SIZE=8 X_TYPE=bf16 S_TYPE=bf16 A_TYPE=bf16 PROBLEMS=3
//!     WIDE WIDE_TYPE=bf16
#define RANKS 4
#if !defined(GROUP) || !defined(GROUP_RANKS) || GROUP_RANKS % RANKS != 0
#error "GROUP and GROUP_RANKS, a multiple of RANKS, are required"
#endif
#if !defined(X_TYPE) || !defined(S_TYPE) || !defined(A_TYPE)
#error "X_TYPE, S_TYPE and A_TYPE, f32, bf16 or f16, are required"
#endif
#include "elements.clh"
#if GROUP == 1
#include "gemm/cpu/rank_dots_cpu.clh"
#else
#include "activations.clh"
#include "team_sums.clh"
#endif
#include "gemm/gemm_epilogue.clh"
#include "gemm/gemm_groups.clh"

#ifdef WIDE
#define WIDE_PARAMETERS EACH(__global STORED(WIDE_TYPE)*, wide),
#else
#define WIDE_PARAMETERS
#endif

// Where the values of one row and problem go.
typedef struct {
  __global STORED(S_TYPE)* s;
#ifdef WIDE
  __global STORED(WIDE_TYPE)* wide;
#endif
  uint adapter, adapters;
  uint R;
} Outputs;

void store_rank(Outputs to, uint r, float value) {
  if (to.adapter != NO_ADAPTER) STORE_ONE(S_TYPE, to.s, r, value);
#ifdef WIDE
  for (uint i = 0; i < to.adapters; ++i) {
    STORE_ONE(WIDE_TYPE, to.wide, (size_t)i * to.R + r, i == to.adapter ? value : 0.0f);
  }
#endif
}

#if GROUP == 1
void shrink_row(Outputs to, __global const STORED(X_TYPE)* x, __global const STORED(A_TYPE)* a,
                uint K, uint ranks, float scale) {
  const uint begin = get_group_id(1) * GROUP_RANKS, end = min(to.R, begin + GROUP_RANKS);
  for (uint r = begin; r < end; r += RANKS) {
    float sums[RANKS] = {0.0f, 0.0f, 0.0f, 0.0f};
    if (r < ranks) rank_dots(sums, x, a, K, ranks, r);
    for (uint j = 0; j < RANKS && r + j < end; ++j) {
      store_rank(to, r + j, r + j < ranks ? scale * sums[j] : 0.0f);
    }
  }
}
#else
// sums[j] = this item's part of x . row r + j of a, past the last one the last.
void dots(float* sums, __global const STORED(X_TYPE)* x, __global const STORED(A_TYPE)* a, uint K,
          uint ranks, uint r) {
  vec vecs[RANKS];
#pragma unroll
  for (uint j = 0; j < RANKS; ++j) vecs[j] = 0.0f;
  for (uint k = get_local_id(0); k < K / VEC_SIZE; k += GROUP) {
    const vec inputs = LOAD_VEC(X_TYPE, x, k);
#pragma unroll
    for (uint j = 0; j < RANKS; ++j) {
      const vec factors = LOAD_VEC(A_TYPE, a + (size_t)min(r + j, ranks - 1) * K, k);
      vecs[j] = fma(inputs, factors, vecs[j]);
    }
  }
  // One lane after the other, in registers: pairwise sums become vector shuffles, on which the
  // simulator that detects unwritten values crashes.
#pragma unroll
  for (uint j = 0; j < RANKS; ++j) {
    const float* lanes = (const float*)&vecs[j];
    float sum = lanes[0];
    for (uint i = 1; i < VEC_SIZE; ++i) sum += lanes[i];
    sums[j] = sum;
  }
}

void shrink_row(Outputs to, __global const STORED(X_TYPE)* x, __global const STORED(A_TYPE)* a,
                uint K, uint ranks, float scale, __local float* scratch) {
  const uint r = get_group_id(1) * RANKS, j = get_local_id(0);
  float sums[RANKS] = {0.0f, 0.0f, 0.0f, 0.0f};
  if (r < ranks) dots(sums, x, a, K, ranks, r);  // by all items of the group, or none
  const float sum = team_sums(sums, RANKS, GROUP, scratch);
  if (j < RANKS && r + j < to.R) store_rank(to, r + j, r + j < ranks ? scale * sum : 0.0f);
}
#endif

__attribute__((reqd_work_group_size(GROUP, 1, 1))) __kernel void grouped_shrink(
    EACH(__global STORED(S_TYPE)*, s), WIDE_PARAMETERS __global const STORED(X_TYPE)* x,
    EACH(__global const STORED(A_TYPE)*, a), __global const uint* row_groups, uint K, uint R,
    uint adapters, float scale) {
#if GROUP > 1
  __local float scratch[TEAM_SCRATCH(RANKS)];
#endif
  const uint m = get_group_id(0);
  const uint adapter = row_adapter(row_groups, m);
  const bool has_adapter = adapter != NO_ADAPTER;
#ifndef WIDE
  if (!has_adapter) return;  // all items of the group
#endif
  Outputs to;
  to.s = (OF(get_group_id(2), s)) + (size_t)m * R;
#ifdef WIDE
  to.wide = (OF(get_group_id(2), wide)) + (size_t)m * adapters * R;
#endif
  to.adapter = adapter;
  to.adapters = adapters;
  to.R = R;
  const uint ranks = has_adapter ? row_ranks(row_groups, m, R) : 0;
  const float factor = has_adapter ? scale * row_factor(row_groups, m) : 0.0f;
  __global const STORED(A_TYPE)* of_row = OF(get_group_id(2), a);
  if (has_adapter) of_row += (size_t)adapter * R * K;
#if GROUP == 1
  shrink_row(to, x + (size_t)m * K, of_row, K, ranks, factor);
#else
  shrink_row(to, x + (size_t)m * K, of_row, K, ranks, factor, scratch);
#endif
}
