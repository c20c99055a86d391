// gemm_skinny: skinny forward products (decoding, small batches), memory-bound, on any device
// except CPUs.
//
//   y [M, N] = alpha x [M, K] w [N, K]^T + scale s [M, R] u [R, N] + addend + bias
//   with -D FUSE_SHRINK, in the same launch:  s = a_scale x a [R, K]^T
//   with -D COLUMN_SCALE, the products are multiplied with column_scale [N] first
//   with -D ROW_GROUPS, each row has its own u, or none (gemm_epilogue.clh)
//
// Shapes  as above; M up to ROWS
// Types   w in any storage type (quant.clh), x (-D X_TYPE), y and addend (Y_TYPE) f32, bf16 or f16;
//         all else f32
// Work    a work-group is cut into teams of `lanes` neighbouring items; a team owns TEAM_ROWS rows
//         of w at a time, for all rows of x: its items read interleaved vectors of eight elements,
//         and their sums are added at the end. Work-groups take blocks of rows round robin.
//         s: each group computes all of it, with a team as large as R allows for each row of a; the
//         first group writes it. The first loads of w are in flight meanwhile.
// Local   scratch for teams' sums; local_s [M, R] if the shrink is fused
// Tiles   -D VEC8: K is a multiple of 8, and loads are 16 bytes if the storage type allows
// Cost    reads w once: 2 M N K flops, N K elements of w; each group reads a once, from the cache
// Numerics  f32 fma in lanes' sums of eight neighbours, then over the lanes; the same bits every
//         run
//! clc: build X_TYPE=f32 Y_TYPE=f32 GROUP=128 ROWS={1,4,16} TEAM_ROWS=1 AHEAD=1
//!     WEIGHT_TYPE={WEIGHT_F32,WEIGHT_BF16,WEIGHT_Q4_1,WEIGHT_Q8_0}
//! clc: build X_TYPE={f32,f16} Y_TYPE={f32,f16} GROUP=128 ROWS=1 TEAM_ROWS=2 AHEAD=2
//!     WEIGHT_TYPE=WEIGHT_BF16 VEC8
//! clc: build X_TYPE=f32 Y_TYPE=f32 GROUP=128 ROWS=1 TEAM_ROWS=2 AHEAD=2
//!     WEIGHT_TYPE={WEIGHT_Q3_K,WEIGHT_MXFP4,WEIGHT_NF4} VEC8
//! clc: build GROUP=512 ROWS=1 TEAM_ROWS=1 AHEAD=4 WEIGHT_TYPE=WEIGHT_BF16 VEC8 FUSE_SHRINK
//!     X_TYPE=bf16 Y_TYPE=bf16
//! clc: build X_TYPE=bf16 Y_TYPE=bf16 GROUP=128 ROWS=4 TEAM_ROWS=2 AHEAD=2 WEIGHT_TYPE=WEIGHT_BF16
//!     VEC8 COLUMN_SCALE ROW_GROUPS
//! clc: budget on gfx90a registers<=112 spills=0
#include "elements.clh"
#include "gemm/gemm_epilogue.clh"
#include "gemm/gemm_problem.clh"
#include "team_sums.clh"

#define SHRINK_AHEAD 4  // vec8s of a that an item loads at once
// Whether an item's first vec8s of w wait in registers while s is computed: in their storage type
// they take few.
#if defined(FUSE_SHRINK) && defined(VEC8) && !defined(WEIGHT_PACKED) && ROWS == 1 && \
    (WEIGHT_TYPE == WEIGHT_BF16 || WEIGHT_TYPE == WEIGHT_F16)
#define EARLY
#endif
#ifdef FUSE_SHRINK
#define S_VALUES local_s
#else
#define S_VALUES s
#endif
#define OUTPUTS (TEAM_ROWS * ROWS)

#define Y STORED(Y_TYPE)
#include "gemm/skinny_products.clh"

#ifdef FUSE_SHRINK
// sums [ROWS] += row . x[m] for `count` vec8s from k on.
__attribute__((always_inline)) void add_shrink_vec8s(float* sums, __global const float* row,
                                                     __global const X* x, uint M, uint K, uint k,
                                                     uint apart, const uint count) {
  float8 factors[SHRINK_AHEAD];
#pragma unroll
  // clc: allow index-overflow within a row
  for (uint c = 0; c < count; ++c) factors[c] = vec8_of_floats(row + k + c * apart);
#pragma unroll
  for (uint c = 0; c < count; ++c) {
#pragma unroll
    for (uint m = 0; m < ROWS; ++m) {
      sums[m] = add_dot8(sums[m], factors[c],
                         X_VEC8(x + (size_t)min(m, M - 1) * K + k + c * apart));
    }
  }
}

// local_s [M, R] = s. Ends with a barrier.
__attribute__((always_inline)) void shrink(__local float* local_s, __global float* s,
                                           __global const X* x, __global const float* a, uint M,
                                           uint K, uint R, float a_scale, __local float* scratch) {
  // The lanes of a team that computes a column of s: one team a column, if the items suffice.
  const uint lanes = max((uint)GROUP >> (32 - clz(R - 1)), 32u);
  const uint team = get_local_id(0) / lanes, lane = get_local_id(0) & (lanes - 1);
  for (uint first = 0; first < R; first += GROUP / lanes) {
    const uint r = first + team;
    __global const float* row = a + (size_t)min(r, R - 1) * K;
    float sums[ROWS];
    for (uint m = 0; m < ROWS; ++m) sums[m] = 0.0f;
#ifdef VEC8
    const uint apart = lanes * 8;
    uint k = lane * 8;
#if ROWS == 1
    for (; k + (SHRINK_AHEAD - 1) * apart < K; k += SHRINK_AHEAD * apart) {
      add_shrink_vec8s(sums, row, x, M, K, k, apart, SHRINK_AHEAD);
    }
    if (k + apart < K) {
      add_shrink_vec8s(sums, row, x, M, K, k, apart, 2);
      k += 2 * apart;
    }
#else
#pragma unroll 4
#endif
    for (; k < K; k += apart) add_shrink_vec8s(sums, row, x, M, K, k, apart, 1);
#else
    for (uint k = lane; k < K; k += lanes) {
      for (uint m = 0; m < ROWS; ++m) {
        sums[m] = fma(row[k], LOAD_ONE(X_TYPE, x, (size_t)min(m, M - 1) * K + k), sums[m]);
      }
    }
#endif
    const float sum = a_scale * team_sums(sums, ROWS, lanes, scratch);
    if (lane < M && r < R) {
      local_s[lane * R + r] = sum;
      if (get_group_id(0) == 0) s[lane * R + r] = sum;
    }
  }
  barrier(CLK_LOCAL_MEM_FENCE);  // s is complete
}
#endif

#ifdef ROW_GROUPS
// sums [TEAM_ROWS][ROWS]: [i][row] += this lane's ranks of scale s u for columns n + i, of one row.
__attribute__((always_inline)) void add_adapter(float* sums, uint row, __global const float* s,
                                                __global const float* u, uint N, uint R,
                                                float scale, uint n, uint lane, uint lanes) {
  for (uint i = 0; i < TEAM_ROWS; ++i) {
    float sum = 0.0f;
    for (uint r = lane; r < R; r += lanes) {
      sum = fma(s[r], scale * u[(size_t)r * N + min(n + i, N - 1)], sum);
    }
    // Constant indices keep the sums in registers.
#pragma unroll
    for (uint m = 0; m < ROWS; ++m) sums[i * ROWS + m] += m == row ? sum : 0.0f;
  }
}
#endif

__attribute__((always_inline)) void skinny_gemm(
    __global Y* y, __global const X* x, __global const uchar* w, __global const Y* addend,
    __global const float* bias, __global float* s, __global const float* u,
    __global const float* a, COLUMN_SCALE_PARAMETER ROW_GROUPS_PARAMETER GemmProblem problem,
    uint lanes, __local float* local_s, __local float* scratch) {
  const uint M = problem.M, N = problem.N, K = problem.K, R = problem.R;
  const uint team = get_local_id(0) / lanes, lane = get_local_id(0) & (lanes - 1);  // a power of 2
  const uint batch_rows = GROUP / lanes * TEAM_ROWS;
  for (uint n0 = get_group_id(0) * batch_rows; n0 < N; n0 += get_num_groups(0) * batch_rows) {
    const uint n = n0 + team * TEAM_ROWS;
    __global const uchar* rows[TEAM_ROWS];
    float sums[OUTPUTS];
#pragma unroll
    for (uint i = 0; i < TEAM_ROWS; ++i) rows[i] = weight_row(w, min(n + i, N - 1), K);
    Vec8 first[AHEAD * TEAM_ROWS];
#ifdef EARLY
    load_vec8s(first, rows, K, lane * 8, lanes * 8, AHEAD);
#endif
#ifdef FUSE_SHRINK
    if (n0 == get_group_id(0) * batch_rows) {
      shrink(local_s, s, x, a, M, K, R, problem.a_scale, scratch);
    }
#endif
#pragma unroll
    for (uint o = 0; o < OUTPUTS; ++o) sums[o] = 0.0f;
    // The output of this item: row m of x, row `column` of w.
    const uint m = lane % ROWS, column = n + lane / ROWS;
    const int stores = lane < OUTPUTS && m < M && column < N;
    float offset = 0.0f;
    const size_t result = (size_t)m * N + column;
    if (stores && problem.has_addend) offset += LOAD_ONE(Y_TYPE, addend, result);
    if (stores && problem.has_bias) offset += bias[column];
    add_products(sums, first, rows, x, M, K, lane, lanes);
#pragma unroll
    for (uint o = 0; o < OUTPUTS; ++o) sums[o] *= problem.alpha;
#ifdef ROW_GROUPS
#pragma unroll 1
    for (uint m = 0; m < ROWS; ++m) {
      const uint adapter = row_adapter(row_groups, min(m, M - 1));
      if (adapter == NO_ADAPTER) continue;
      add_adapter(sums, m, s + min(m, M - 1) * R, u + (size_t)adapter * R * N, N,
                  row_ranks(row_groups, min(m, M - 1), R), problem.scale, n, lane, lanes);
    }
#else
    for (uint r = lane; r < R; r += lanes) {
#pragma unroll
      for (uint o = 0; o < OUTPUTS; ++o) {
        const uint at = min(o % ROWS, M - 1) * R + r;
        const float factor = problem.scale * u[(size_t)r * N + min(n + o / ROWS, N - 1)];
        sums[o] = fma(S_VALUES[at], factor, sums[o]);
      }
    }
#endif
    float sum = team_sums(sums, OUTPUTS, lanes, scratch);
#ifdef COLUMN_SCALE
    sum *= column_scale[min(column, N - 1)];
#endif
    if (stores) STORE_ONE(Y_TYPE, y, result, sum + offset);
  }
}

__attribute__((reqd_work_group_size(GROUP, 1, 1))) __kernel void gemm_skinny(
    __global Y* y, __global const X* x, __global const uchar* w, __global const Y* addend,
    __global const float* bias, __global float* s, __global const float* u,
    __global const float* a, COLUMN_SCALE_PARAMETER ROW_GROUPS_PARAMETER GemmProblem problem,
    uint lanes, __local float* local_s) {
  __local float scratch[TEAM_SCRATCH(OUTPUTS)];
  skinny_gemm(y, x, w, addend, bias, s, u, a, COLUMN_SCALE_ARGUMENT ROW_GROUPS_ARGUMENT problem,
              lanes, local_s, scratch);
}

// The same with the tensors' addresses in memory, in the order of the arguments above with all
// options, which lowers the overhead of a launch.
__attribute__((reqd_work_group_size(GROUP, 1, 1))) __kernel void gemm_skinny_at(
    __global const ulong* at, GemmProblem problem, uint lanes, __local float* local_s) {
  __local float scratch[TEAM_SCRATCH(OUTPUTS)];
#ifdef COLUMN_SCALE
  __global const float* column_scale = (__global const float*)at[8];
#endif
#ifdef ROW_GROUPS
  __global const uint* row_groups = (__global const uint*)at[9];
#endif
  skinny_gemm((__global Y*)at[0], (__global const X*)at[1], (__global const uchar*)at[2],
              (__global const Y*)at[3], (__global const float*)at[4], (__global float*)at[5],
              (__global const float*)at[6], (__global const float*)at[7],
              COLUMN_SCALE_ARGUMENT ROW_GROUPS_ARGUMENT problem, lanes, local_s, scratch);
}
