// grouped_gemm_matrix: products of rows with the weights of their experts on a GPU's matrix unit
// (matrix_unit.clh).
//
//   y [S, N] = scale x [rows, K] w_e [N, K]^T
//   TRANSPOSED   y [S, N] = scale x [S, K] w_e [K, N]
//   ADDEND       y is added to
//
// Shapes  S slots (router.cl); x [S, K], or with -D GATHER [T, K], whose rows are those of the slots'
//         entries; w the experts' matrices by rows, one after the other; strides in
//         GroupedMatrixProblem
// Types   x and w bf16; y f32, or bf16 with -D Y_BF16
// Work    as gemm_matrix.cl: a work-group owns a tile of TILE_ROWS x TILE_COLUMNS, a sub-group
//         SUB_ROWS x SUB_COLUMNS of it. A tile of the plan has one expert (tile_experts), and
//         groups_of_tile groups share its rows
// Options ALIGNED: N is a multiple of 8
// Local   STAGES * (TILE_ROWS + TILE_COLUMNS) * STEPS * 2 bytes
// Cost    2 S N K flops; tiles of unused slots are not multiplied
// Numerics  products of bf16 are exact in f32; sums as the unit computes them, steps in order. Rows
//         of unused slots are zeros, or with ADDEND unchanged
//! clc: build on mma: MMA_SYNC TILE_ROWS=128 TILE_COLUMNS=128 SUB_ROWS=64 SUB_COLUMNS=64 STEPS=32
//!     STAGES=3 Y_BF16 ALIGNED GATHER
//! clc: build on mma: MMA_SYNC TILE_ROWS=64 TILE_COLUMNS=128 SUB_ROWS=32 SUB_COLUMNS=64 STEPS=32
//!     STAGES=3 Y_BF16 ALIGNED TRANSPOSED ADDEND
//! clc: build on mfma: MFMA TILE_ROWS=128 TILE_COLUMNS=128 SUB_ROWS=64 SUB_COLUMNS=64 STEPS=32
//!     STAGES=3 Y_BF16 ALIGNED GATHER
//! clc: build MMA_SYNC EMULATED TILE_ROWS=32 TILE_COLUMNS=64 SUB_ROWS=16 SUB_COLUMNS=32 STEPS=32
//!     STAGES=3 GATHER
//! clc: build MMA_SYNC EMULATED TILE_ROWS=32 TILE_COLUMNS=64 SUB_ROWS=16 SUB_COLUMNS=32 STEPS=32
//!     STAGES=3 TRANSPOSED ADDEND
#include "experts/grouped_matrix_problem.clh"
#include "raster_groups.clh"
#ifdef GATHER
#define TILE_OF_ROWS           \
  __global const int* entries; \
  uint experts_of_row;
#define X_ROW(tile, m) ((uint)max((tile).entries[m], 0) / (tile).experts_of_row)
#endif
#include "gemm/gemm_matrix_tile.clh"
#include "gemm/gemm_matrix_epilogue.clh"

// The rows of unused slots become zeros; with ADDEND they are then unchanged.
INLINED void clear_unused(MatrixUnit unit, AllSums* sums, __global const int* entries, Tile tile,
                          Part part) {
  UNROLL for (uint i = 0; i < LEFTS; ++i) {
    UNROLL for (uint e = 0; e < SUM_ROWS; ++e) {
      const bool is_used = entries[tile.m0 + row_of_left(part, i) + sum_row(unit, e)] >= 0;
      UNROLL for (uint j = 0; j < RIGHTS; ++j) {
        UNROLL for (uint c = 0; c < SUM_COLUMNS; ++c) {
          if (!is_used) sums->y[i][j].v[e][c] = 0.0f;
        }
      }
    }
  }
}

SUBGROUP_OF_LANES __attribute__((reqd_work_group_size(ITEMS, 1, 1))) __kernel void
grouped_gemm_matrix(__global Y_TYPE* y, __global const ushort* x, __global const ushort* w,
                    __global const int* entries, __global const int* tile_experts,
                    GroupedMatrixProblem p) {
  MATRIX_UNIT(unit, SUBGROUPS);
  __local uchar ring[STAGES * STAGE_BYTES] __attribute__((aligned(1024)));
  const uint item = get_local_id(0), number = get_group_id(0);
  const uint column_tiles = (p.N + TILE_COLUMNS - 1) / TILE_COLUMNS;
  const RasterTile at = raster_tile(raster_grid(p.S / TILE_ROWS, column_tiles, p.group_m), number);
  const int expert = tile_experts[at.row / p.groups_of_tile];
  const Part part = part_of(item / LANES);
  Tile tile = {at.row * TILE_ROWS, at.column * TILE_COLUMNS, p.S, p.N, 0, 0};
#ifdef GATHER
  tile.entries = entries;
  tile.experts_of_row = p.experts_of_row;
#endif
  AllSums sums;
  clear_sums(&sums);
  if (expert >= 0) {  // the same for all items of the group
    const size_t rows = (size_t)expert * (IS_TRANSPOSED ? p.K : p.N);
    const Problem problem = {x, w + rows * p.w_stride, x, x, p.K, p.x_stride, p.w_stride, 0, 0};
    multiply_tile(unit, &sums, problem, tile, local_at(ring), part, item);
  }
  scale_sums(&sums, p.scale);
  clear_unused(unit, &sums, entries, tile, part);
  const Extras extras = {y, 0};
  store_sums(unit, y, &sums, extras, tile, part);
}
