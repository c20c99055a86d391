// grouped_shrink: the first low-rank factor of products with one input, whose rows have several
// adapters.
//
//   s_i [M, R] = scale * (factor of the row) * x [M, K] a_i[adapter of the row] [R, K]^T
//   with -D WIDE   wide_i [M, adapters * R]: the same values in the columns of the row's adapter,
//                  zeros in all others: wide_i u, with the stack u as one matrix, is the low-rank
//                  term of products that have no row groups
//   with -D NORM   x is computed and written, too: x = rms_norm(from) = from r w,
//                  r = 1 / sqrt(mean(from^2) + epsilon) (rowwise/rms_norm.cl)
//   with -D SWIGLU the same for x = silu(gate) up, or, with GELU or SIGMOID, that function
//                  (rowwise/gate_function.clh)
//
// Shapes  as above; a_i [adapters, R, K]; row_groups [M, 4] (gemm_epilogue.clh); -D PROBLEMS=1 to
//         4; from, gate, up [M, K]; w [K]
// Types   x, s, a and wide of -D X_TYPE, S_TYPE, A_TYPE and WIDE_TYPE, from, gate and up of
//         FROM_TYPE: f32, bf16 or f16; w f32
// Work    a work-group owns GROUP_RANKS elements of GROUP_ROWS rows of s_i. The ranks of a row's
//         adapter are computed, RANKS at once; others are zeros. Rows without an adapter are not
//         written, except in wide. Rows of a group that have the same adapter and are adjacent
//         share its reads of a.
//         GROUP=1, for CPUs: an item sums 16 lanes of a row at once. Otherwise the items of a group
//         take interleaved vectors of the rows. If x is computed, each group computes the row for
//         itself, and one more group of each row, the last one along dimension 1, writes it.
// Local   scratch for the items' sums
// Cost    2 M R K flops; reads a row of x R / GROUP_RANKS times, and a for each run of rows in a
//         group, from the cache
// Numerics  f32 fma in the sums of lanes (GROUP=1) or items, then over these: the same bits every
//         run, whatever the other rows are. A computed x is rounded to X_TYPE before it is
//         multiplied
// -D VEC_SIZE=4 or 8, not for CPUs: rows of K elements are aligned to as many elements.
//! clc: build GROUP=1 GROUP_RANKS=16 X_TYPE=f32 S_TYPE=f32 A_TYPE=f32 PROBLEMS={1,3}
//! clc: build GROUP=64 GROUP_RANKS=4 GROUP_ROWS={1,4} VEC_SIZE={1,4} X_TYPE=f32 S_TYPE=f32
//!     A_TYPE=f32 PROBLEMS=3
//! clc: build GROUP=64 GROUP_RANKS=4 GROUP_ROWS=4 VEC_SIZE=8 X_TYPE=bf16 S_TYPE=bf16 A_TYPE=bf16
//!     PROBLEMS=3 WIDE WIDE_TYPE=bf16
//! clc: build GROUP=64 GROUP_RANKS=4 GROUP_ROWS=4 VEC_SIZE=8 X_TYPE=bf16 S_TYPE=bf16 A_TYPE=bf16
//!     PROBLEMS=3 WIDE WIDE_TYPE=bf16 NORM FROM_TYPE=f32
//! clc: build GROUP=64 GROUP_RANKS=4 GROUP_ROWS=4 VEC_SIZE=4 X_TYPE=f32 S_TYPE=f32 A_TYPE=f32
//!     SWIGLU FROM_TYPE=f32
#if !defined(GROUP) || !defined(GROUP_RANKS) || (GROUP == 1 && GROUP_RANKS % 4 != 0)
#error "GROUP and GROUP_RANKS, of GROUP=1 a multiple of 4, are required"
#endif
#if GROUP > 1 && (!defined(GROUP_ROWS) || GROUP_ROWS * GROUP_RANKS > 32)
#error "GROUP_ROWS is required, and at most 32 sums at once"
#endif
// Ranks that are computed at once.
#if GROUP == 1
#define RANKS 4
#else
#define RANKS GROUP_RANKS
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
#include "gemm/grouped_shrink_rows.clh"

#ifdef WIDE
#define WIDE_PARAMETERS EACH(__global STORED(WIDE_TYPE)*, wide),
#else
#define WIDE_PARAMETERS
#endif

// Where the values of one row and problem go: OUTPUTS_OF(m), in the kernel.
typedef struct {
  __global STORED(S_TYPE)* s;
#ifdef WIDE
  __global STORED(WIDE_TYPE)* wide;
#endif
  uint adapter, adapters;
  uint R;
} Outputs;

#ifdef WIDE
#define OUTPUTS_OF(m) \
  {(OF(problem, s)) + (size_t)(m) * R, (OF(problem, wide)) + (size_t)(m) * adapters * R, \
   row_adapter(row_groups, m), adapters, R}
#else
#define OUTPUTS_OF(m) \
  {(OF(problem, s)) + (size_t)(m) * R, row_adapter(row_groups, m), adapters, R}
#endif

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
// Whether two rows have the same adapter and ranks.
bool are_alike(__global const uint* row_groups, uint m, uint other) {
  return row_adapter(row_groups, m) == row_adapter(row_groups, other) &&
         words_of_row(row_groups, m)[2] == words_of_row(row_groups, other)[2];
}
#endif

__attribute__((reqd_work_group_size(GROUP, 1, 1))) __kernel void grouped_shrink(
    EACH(__global STORED(S_TYPE)*, s), WIDE_PARAMETERS X_POINTER x, FROM_PARAMETERS
    EACH(__global const STORED(A_TYPE)*, a), __global const uint* row_groups, uint M, uint K,
    uint R, uint adapters, float scale NORM_PARAMETER) {
  const uint problem = get_group_id(2);
#if GROUP == 1
  const uint m = get_group_id(0), adapter = row_adapter(row_groups, m);
  const bool has_adapter = adapter != NO_ADAPTER;
#ifndef WIDE
  if (!has_adapter) return;
#endif
  const Outputs to = OUTPUTS_OF(m);
  const uint ranks = has_adapter ? row_ranks(row_groups, m, R) : 0;
  const float factor = has_adapter ? scale * row_factor(row_groups, m) : 0.0f;
  __global const STORED(A_TYPE)* of_row = OF(problem, a);
  if (has_adapter) of_row += (size_t)adapter * R * K;
  shrink_row(to, x + (size_t)m * K, of_row, K, ranks, factor);
#else
  __local float scratch[TEAM_SCRATCH(GROUP_ROWS * RANKS)];
  const uint first = get_group_id(0) * GROUP_ROWS, count = min((uint)GROUP_ROWS, M - first);
  InputRow rows[GROUP_ROWS];
#pragma unroll
  for (uint i = 0; i < GROUP_ROWS; ++i) {
    const size_t at = (size_t)min(first + i, M - 1) * K;
    rows[i].x = x + at;
#if defined(NORM)
    rows[i].from = from + at;
    rows[i].w = w;
#elif defined(SWIGLU)
    rows[i].gate = gate + at;
    rows[i].up = up + at;
#endif
  }
#ifdef NORM
  find_norm_factors(rows, K, epsilon, scratch);
#endif
#ifdef COMPUTES_X
  if (get_group_id(1) + 1 == get_num_groups(1)) {  // all items of the group
#pragma unroll
    for (uint i = 0; i < GROUP_ROWS; ++i) {
      if (i < count && problem == 0) write_row(rows[i], K);
    }
    return;
  }
#endif
  const uint r = get_group_id(1) * RANKS, item = get_local_id(0), own = item / RANKS;
  // A run of rows with one adapter at a time; all items of the group take the same branches.
  for (uint begin = 0, end; begin < count; begin = end) {
    for (end = begin + 1; end < count && are_alike(row_groups, first + begin, first + end);) ++end;
    const uint adapter = row_adapter(row_groups, first + begin);
    const bool has_adapter = adapter != NO_ADAPTER;
    const uint ranks = has_adapter ? row_ranks(row_groups, first + begin, R) : 0;
    float sums[GROUP_ROWS * RANKS];
#pragma unroll
    for (uint i = 0; i < GROUP_ROWS * RANKS; ++i) sums[i] = 0.0f;
    if (r < ranks) dots(sums, rows, (OF(problem, a)) + (size_t)adapter * R * K, K, R, r);
    const float sum = team_sums(sums, GROUP_ROWS * RANKS, GROUP, scratch);
    const uint m = first + own, rank = r + item % RANKS;
    if (own < begin || own >= end || rank >= R) continue;
    const Outputs to = OUTPUTS_OF(m);
    store_rank(to, rank, rank < ranks ? scale * row_factor(row_groups, m) * sum : 0.0f);
  }
#endif
}
