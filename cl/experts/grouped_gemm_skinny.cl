// grouped_gemm_skinny: products of few rows with the weights of their experts (decoding),
// memory-bound, on any device except CPUs.
//
//   y [S, N] = alpha x [rows, K] w_e [N, K]^T + scale s [S, R] u_e [R, N]
//
// Shapes  those of grouped_gemm.cl; TILE slots of a tile of the plan (router.cl), of which the first
//         ones have entries
// Types   w in any storage type (quant.clh); x of -D X_TYPE and y of -D Y_TYPE, f32, bf16 or f16;
//         all else f32
// Work    a work-group owns a block of columns of the slots of a tile, which have one expert. It is
//         cut into teams of `lanes` neighbouring items; a team owns TEAM_ROWS rows of w_e, and
//         multiplies them with the rows of the slots one after the other: only the first of them
//         reads w_e from memory (skinny_products.clh)
// Local   scratch for the sums of teams
// Cost    reads w_e once for each tile of an expert that has entries: 2 N K flops for each entry
// Numerics  f32 fma in lanes' sums of eight neighbours, then over the lanes; the same bits every
//         run. Rows of unused slots, and of experts without a matrix, are zeros
//! clc: build X_TYPE=f32 Y_TYPE=f32 GROUP=128 TILE=4 TEAM_ROWS=1 AHEAD=4 GATHER
//!     WEIGHT_TYPE={WEIGHT_F32,WEIGHT_BF16,WEIGHT_Q4_1,WEIGHT_Q6_K,WEIGHT_Q8_0}
//! clc: build X_TYPE=bf16 Y_TYPE=bf16 GROUP=128 TILE=4 TEAM_ROWS=2 AHEAD=2 WEIGHT_TYPE=WEIGHT_BF16
//!     VEC8 LOW_RANK
//! clc: build X_TYPE=f32 Y_TYPE=f32 GROUP=128 TILE=4 TEAM_ROWS=1 AHEAD=4 WEIGHT_TYPE=WEIGHT_F32
//!     VEC8 W_OFFSETS GATHER
//! clc: budget on gfx90a registers<=104 spills=0
#define ROWS 1
#include "elements.clh"
#include "gemm/skinny_products.clh"
#include "experts/expert_matrices.clh"
#include "team_sums.clh"

#ifndef TILE
#error "TILE, slots of a tile of the plan, is required"
#endif
#define Y STORED(Y_TYPE)

uint entries_of_tile(__global const int* entries) {
  uint count = 0;
  while (count < TILE && entries[count] >= 0) ++count;
  return count;
}

// The row of x that a slot reads.
size_t x_row(__global const int* entries, uint slot, uint experts_of_row) {
#ifdef GATHER
  return (uint)entries[slot] / experts_of_row;
#else
  return slot;
#endif
}

// sums [TEAM_ROWS] += this lane's ranks of scale s u for columns n, n + 1, ... of one slot.
__attribute__((always_inline)) void add_low_rank(float* sums, __global const float* s,
                                                 __global const float* u, uint N, uint R,
                                                 float scale, uint n, uint lane, uint lanes) {
  for (uint r = lane; r < R; r += lanes) {
#pragma unroll
    for (uint i = 0; i < TEAM_ROWS; ++i) {
      sums[i] = fma(s[r], scale * u[(size_t)r * N + min(n + i, N - 1)], sums[i]);
    }
  }
}

__attribute__((reqd_work_group_size(GROUP, 1, 1))) __kernel void grouped_gemm_skinny(
    __global Y* y, __global const X* x, __global const uchar* w, __global const uint* w_offsets,
    __global const float* s, __global const float* u, __global const uint* u_offsets,
    __global const int* entries, __global const int* tile_experts, uint N, uint K, uint R,
    uint experts_of_row, float alpha, float scale, uint lanes) {
  __local float scratch[TEAM_SCRATCH(TEAM_ROWS)];
  const uint team = get_local_id(0) / lanes, lane = get_local_id(0) & (lanes - 1);  // a power of 2
  const uint columns = GROUP / lanes * TEAM_ROWS, n0 = get_group_id(0) * columns;
  const uint n = n0 + team * TEAM_ROWS, slot0 = get_group_id(1) * TILE;
  const int expert = tile_experts[get_group_id(1)];
  __global const uchar* matrix = matrix_of(w, w_offsets, expert, N, K);
  const uint count = matrix == 0 ? 0 : entries_of_tile(entries + slot0);
  __global const uchar* rows[TEAM_ROWS];
#pragma unroll
  for (uint i = 0; i < TEAM_ROWS; ++i) rows[i] = weight_row(matrix, min(n + i, N - 1), K);
#ifdef LOW_RANK
  const uint offset = expert < 0 ? NO_OFFSET : u_offsets[expert];
#endif
  for (uint m = 0; m < count; ++m) {  // as often for all items of the group
    const uint slot = slot0 + m;
    float sums[TEAM_ROWS];
    Vec8 unused[1];
#pragma unroll
    for (uint i = 0; i < TEAM_ROWS; ++i) sums[i] = 0.0f;
    add_products(sums, unused, rows, x + x_row(entries, slot, experts_of_row) * K, 1, K, lane,
                 lanes);
#pragma unroll
    for (uint i = 0; i < TEAM_ROWS; ++i) sums[i] *= alpha;
#ifdef LOW_RANK
    if (offset != NO_OFFSET) {
      add_low_rank(sums, s + (size_t)slot * R, u + offset, N, R, scale, n, lane, lanes);
    }
#endif
    const float sum = team_sums(sums, TEAM_ROWS, lanes, scratch);
    if (lane < TEAM_ROWS && n + lane < N) STORE_ONE(Y_TYPE, y, (size_t)slot * N + n + lane, sum);
  }
  const uint end = min(n0 + columns, N);
  for (uint slot = slot0 + count; slot < slot0 + TILE; ++slot) {
    for (uint column = n0 + get_local_id(0); column < end; column += GROUP) {
      STORE_ONE(Y_TYPE, y, (size_t)slot * N + column, 0.0f);
    }
  }
}
