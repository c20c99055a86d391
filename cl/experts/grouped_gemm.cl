// grouped_gemm: products of rows with the weights of their experts, portable.
//
//   forward              y [S, N] = alpha x [rows, K] w_e [N, K]^T + scale s [S, R] u_e [R, N]
//   with -D BACKWARD=1   y [S, N] = alpha x [rows, K] w_e [K, N] + the same
//   with -D ACCUMULATE   y is added to
//
// Shapes  S slots (router.cl); x [S, K], or with -D GATHER [T, K], whose rows are those of the
//         slots' entries; w the experts' matrices by rows, one after the other, or with
//         -D W_OFFSETS f32 matrices at w_offsets [X] of a flat buffer; u_e at u_offsets [X] of
//         a flat buffer, only with -D LOW_RANK
// Types   w in any storage type (quant.clh); x of -D X_TYPE and y of -D Y_TYPE, f32, bf16 or f16;
//         all else f32
// Work    a work-group owns a tile of TILE_ROWS x TILE_COLUMNS elements of y, which its items hold
//         in registers (register_tile.clh). A tile of the plan has one expert, and groups_of_tile
//         groups share its rows
// Local   two stages of both operands (gemm_stages.clh)
// Cost    2 S N (K + R) flops; x is read N / TILE_COLUMNS times, w_e once for each of its tiles
// Numerics  f32 fma, steps in order. Rows of unused slots, and of experts without a matrix, are
//         zeros, or with ACCUMULATE unchanged
// -D K_OF_FOURS, N_OF_FOURS: rows of K or N elements are aligned to four elements.
//! clc: build TILE_ROWS=64 TILE_COLUMNS=64 STEPS=8 ITEM_ROWS=8 ITEM_COLUMNS=8 X_TYPE=f32 Y_TYPE=f32
//!     GATHER LOW_RANK WEIGHT_TYPE={WEIGHT_F32,WEIGHT_F16,WEIGHT_BF16,WEIGHT_Q4_1,WEIGHT_Q6_K}
//! clc: build TILE_ROWS=64 TILE_COLUMNS=64 STEPS=8 ITEM_ROWS=8 ITEM_COLUMNS=8 X_TYPE=f32 Y_TYPE=f32
//!     K_OF_FOURS N_OF_FOURS BACKWARD={0,1} LOW_RANK ACCUMULATE WEIGHT_TYPE={WEIGHT_BF16,WEIGHT_Q8_0}
//! clc: build TILE_ROWS=16 TILE_COLUMNS=64 STEPS=16 ITEM_ROWS=4 ITEM_COLUMNS=4 X_TYPE=bf16
//!     Y_TYPE=bf16 K_OF_FOURS N_OF_FOURS W_OFFSETS GATHER WEIGHT_TYPE=WEIGHT_F32
//! clc: budget on gfx90a registers<=168 spills=0
#ifdef GATHER
#define OPERANDS_OF_ROWS      \
  __global const int* entries; \
  uint experts_of_row;
#define X_ROW(p, m) ((size_t)((uint)max((p).entries[m], 0) / (p).experts_of_row))
#endif
#include "gemm/gemm_stages.clh"
#include "experts/expert_matrices.clh"

// Stores y at row m, columns n .. n + 3 of [S, N], where they exist.
INLINE void store_fours(__global STORED(Y_TYPE)* y, __global const int* entries, uint N, uint m,
                        uint n, float4 four) {
  if (n >= N) return;
  const size_t at = (size_t)m * N + n;
  if (entries[m] < 0) {
#ifdef ACCUMULATE
    return;
#else
    four = (float4)(0.0f);
#endif
  }
#ifdef N_OF_FOURS
#ifdef ACCUMULATE
  four += LOAD_VEC(Y_TYPE, y, at / 4);
#endif
  STORE_VEC(Y_TYPE, y, (long)(at / 4), four);
#else
  const float values[4] = {four.x, four.y, four.z, four.w};
  for (uint i = 0; i < 4 && n + i < N; ++i) {
    float value = values[i];
#ifdef ACCUMULATE
    value += LOAD_ONE(Y_TYPE, y, at + i);
#endif
    STORE_ONE(Y_TYPE, y, at + i, value);
  }
#endif
}

__attribute__((reqd_work_group_size(ITEMS, 1, 1))) __kernel void grouped_gemm(
    __global STORED(Y_TYPE)* y, __global const STORED(X_TYPE)* x, __global const uchar* w,
    __global const uint* w_offsets, __global const float* s, __global const float* u,
    __global const uint* u_offsets, __global const int* entries, __global const int* tile_experts,
    uint groups_of_tile, uint S, uint N, uint K, uint R, uint experts_of_row, float alpha, float scale) {
  __local float4 left_fours[2 * STEPS * LEFT_STRIDE / 4];
  __local float4 right_fours[2 * STEPS * RIGHT_STRIDE / 4];
  __local float* left = (__local float*)left_fours;
  __local float* right = (__local float*)right_fours;
  const uint item = get_local_id(0), m0 = get_group_id(0) * TILE_ROWS;
  const int expert = tile_experts[get_group_id(0) / groups_of_tile];
  __global const uchar* matrix = matrix_of(w, w_offsets, expert, N, K);
#ifdef GATHER
  const Operands p = {x, matrix, S, N, K, m0, get_group_id(1) * TILE_COLUMNS,
                      entries, experts_of_row};
#else
  const Operands p = {x, matrix, S, N, K, m0, get_group_id(1) * TILE_COLUMNS};
#endif
  float4 sums[TILE_FOURS];
#pragma unroll
  for (uint i = 0; i < TILE_FOURS; ++i) sums[i] = (float4)(0.0f);
  const int whole = matrix == 0 ? 0 : K / STEPS;  // the same for all items of the group
  float4 x_fours[X_FETCHES], w_fours[W_FETCHES];
  if (whole > 0) {
    fetch_stage(x_fours, w_fours, p, 0, item);
    store_stage(left, right, x_fours, w_fours, item);
  }
  barrier(CLK_LOCAL_MEM_FENCE);  // the first stage is complete
  for (int now = 0; now < whole; ++now) {
    const int next = now + 1, to = next % 2;
    if (next < whole) fetch_stage(x_fours, w_fours, p, next * STEPS, item);
    multiply_tile(sums, left + now % 2 * STEPS * LEFT_STRIDE,
                  right + now % 2 * STEPS * RIGHT_STRIDE, RIGHT_STRIDE, item);
    if (next < whole) {
      store_stage(left + to * STEPS * LEFT_STRIDE, right + to * STEPS * RIGHT_STRIDE, x_fours,
                  w_fours, item);
    }
    barrier(CLK_LOCAL_MEM_FENCE);  // the next stage is complete, and all items have read this one
  }
  scale_sums(sums, alpha);
  if (matrix != 0 && K % STEPS != 0) {
    stage_rest(left, right, p, alpha, whole * STEPS, item);
    barrier(CLK_LOCAL_MEM_FENCE);  // the steps are staged
    multiply_tile(sums, left, right, RIGHT_STRIDE, item);
    barrier(CLK_LOCAL_MEM_FENCE);  // all items have read them
  }
#ifdef LOW_RANK
  const uint offset = expert < 0 ? NO_OFFSET : u_offsets[expert];
  const LowRank term = {s, u + (offset == NO_OFFSET ? 0 : offset), R, R, scale};
  for (uint r = 0; r < R && offset != NO_OFFSET; r += STEPS) {
    stage_low_rank(left, right, p, term, r, 0, S, item);
    barrier(CLK_LOCAL_MEM_FENCE);  // the steps are staged
    multiply_tile(sums, left, right, RIGHT_STRIDE, item);
    barrier(CLK_LOCAL_MEM_FENCE);  // all items have read them
  }
#endif
#pragma unroll
  for (uint i = 0; i < ITEM_ROWS; ++i) {
#pragma unroll
    for (uint j = 0; j < COLUMN_FOURS; ++j) {
      store_fours(y, entries, N, m0 + tile_row(item, i), p.n0 + tile_column(item, j),
                  sums[i * COLUMN_FOURS + j]);
    }
  }
}
