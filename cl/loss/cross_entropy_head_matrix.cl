// cross_entropy_head_matrix: exponentials of a chunk of logits on a GPU's matrix unit
// (matrix_unit.clh); the logits themselves are never stored.
//
//   z [T, V] = x [T, D] w [V, D]^T, in units of log 2: times log2(e)
//   e [T, V] = 2^(z - reference[t])
//   parts[n, t] = (sum of e[t, v] over the v of tile n, the reference it is relative to)
//   -D LOSS_ALONE: parts only, each relative to the largest logit of its tile
//   -D SOFT_CAP: z are capped, and e is multiplied by the slope of the cap, but not in the sums
//   (soft_cap.clh)
// Shapes  sizes and strides of rows in HeadProblem, where V is the size of this chunk; parts [tiles of
//         the full vocabulary, T], references [T], raised [1 + tiles of rows + T], zeros before the
//         first launch of a chunk, dx [T, D]. Columns of e from V on are zero. LOSS_ALONE has no e,
//         references, raised and dx
// Types   x, w and e bf16, parts float2, raised u32, all else f32
// Work    a work-group takes a tile of TILE_ROWS x TILE_COLUMNS, in rasterisation groups
//         (raster_groups.clh), or, with `again`, tiles with a grid stride; otherwise as
//         gemm_matrix.cl
// Options TILE_ROWS, TILE_COLUMNS, SUB_ROWS, SUB_COLUMNS, STEPS and STAGES: as gemm_matrix.cl
// Local   STAGES * (TILE_ROWS + TILE_COLUMNS) * STEPS * 2 bytes
// Cost    2 T V D flops
// Numerics  A row's reference is the logit of its target, which is at most the row's maximum, so no
//         significant term underflows. Exponentials up to LIMIT fit bf16, also in sums with w. A
//         sub-group that exceeds LIMIT records it in raised: a flag at [0], a flag at [1 + tile of
//         rows], and for the row the largest logit of these tiles plus MARGIN, so a second excess
//         is rare. A second launch with `again`, which returns at once if raised[0] is zero,
//         recomputes these tiles of rows, raised rows relative to their raised reference; it also
//         rescales what dx holds of them and stores the new reference. The result does not depend
//         on the order of the groups: the same bits every run.
//! clc: build on mma: MMA_SYNC TILE_ROWS=128 TILE_COLUMNS=128 SUB_ROWS=64 SUB_COLUMNS=64 STEPS=32
//!     STAGES=3
//! clc: build on mma: MMA_SYNC TILE_ROWS=128 TILE_COLUMNS=128 SUB_ROWS=64 SUB_COLUMNS=64 STEPS=32
//!     STAGES=3 LOSS_ALONE
//! clc: build on mfma: MFMA TILE_ROWS=128 TILE_COLUMNS=128 SUB_ROWS=64 SUB_COLUMNS=64 STEPS=32
//!     STAGES=3
//! clc: build on wmma_gfx11: WMMA_GFX11 TILE_ROWS=128 TILE_COLUMNS=128 SUB_ROWS=64 SUB_COLUMNS=64
//!     STEPS=32 STAGES=3
//! clc: build on wmma_gfx12: WMMA_GFX12 TILE_ROWS=128 TILE_COLUMNS=128 SUB_ROWS=64 SUB_COLUMNS=64
//!     STEPS=32 STAGES=3
//! clc: build on xmx: XMX TILE_ROWS=32 TILE_COLUMNS=64 SUB_ROWS=16 SUB_COLUMNS=16 STEPS=32 STAGES=4
//!     -cl-intel-256-GRF-per-thread
//! clc: budget of head_exponentials_matrix on gfx90a spills<=9
//! clc: budget of head_exponentials_matrix on gfx942 spills<=14
//! clc: budget of head_exponentials_matrix on gfx1100 spills=0
//! clc: budget of head_exponentials_matrix on gfx1201 spills=0
//! clc: budget of head_exponentials_matrix on pvc spills<=25
//! clc: build MMA_SYNC EMULATED TILE_ROWS=32 TILE_COLUMNS=64 SUB_ROWS=16 SUB_COLUMNS=32 STEPS=32
//!     STAGES=3
//! clc: build on mma: MMA_SYNC TILE_ROWS=128 TILE_COLUMNS=128 SUB_ROWS=64 SUB_COLUMNS=64 STEPS=32
//!     STAGES=3 SOFT_CAP=30.0f
//! clc: allow index-overflow tiles and their parts are numbered well below 2^31
#include "gemm/gemm_matrix_tile.clh"
#include "loss/cross_entropy_head_sums.clh"
#include "loss/cross_entropy_head_problem.clh"
#include "raster_groups.clh"
#include "soft_cap.clh"

#define LOG2E 1.44269504f
#define LIMIT 0x1p90f
#define MARGIN 32.0f
#define NO_ROW 3e38f  // a reference that makes every exponential zero
#define LEAST -1e38f  // below any logit

// Maps floats to words of the same order; only a NaN can map to zero.
uint ordered(float x) {
  const uint bits = as_uint(x);
  return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}
float of_ordered(uint word) {
  return as_float(word & 0x80000000u ? word & 0x7fffffffu : ~word);
}

// The largest of a lane's logits in a row, of columns below V.
INLINED float max_logit(MatrixUnit unit, const AllSums* sums, uint i, uint row, uint v0, uint V) {
  float max_z = LEAST;
  UNROLL for (uint j = 0; j < RIGHTS; ++j) {
    UNROLL for (uint n = 0; n < SUM_COLUMNS; ++n) {
      if (v0 + 16 * j + sum_column(unit, n) < V) max_z = fmax(max_z, sums->y[i][j].v[row][n]);
    }
  }
  return max_z * LOG2E;
}

// Stores the exponentials of a lane's columns of a row, from v0 on, and returns their sum.
INLINED float exponentials(MatrixUnit unit, __global ushort* e, const AllSums* sums, uint i,
                           uint row, float reference, uint v0, HeadProblem p, bool in_e) {
  float total = 0;
  UNROLL for (uint j = 0; j < RIGHTS; ++j) {
    const uint v = v0 + 16 * j;
    float of[SUM_COLUMNS];
    UNROLL for (uint n = 0; n < SUM_COLUMNS; ++n) {
      const float one = exp2_of(fma(sums->y[i][j].v[row][n], LOG2E, -reference));
      of[n] = v + sum_column(unit, n) < p.V ? one : 0.0f;
      total += of[n];
      CAP_GRADIENTS(of[n], sums->y[i][j].v[row][n], 1.0f);
    }
#ifndef LOSS_ALONE
    store_row_bf16(unit, e + v, of, in_e && v < p.e_stride ? p.e_stride - v : 0);
#endif
  }
  return total;
}

// With SOFT_CAP, caps all logits of a lane.
INLINED void cap_logits(AllSums* sums) {
#ifdef SOFT_CAP
  UNROLL for (uint i = 0; i < LEFTS; ++i) {
    UNROLL for (uint row = 0; row < SUM_ROWS; ++row) {
      UNROLL for (uint j = 0; j < RIGHTS; ++j) {
        UNROLL for (uint n = 0; n < SUM_COLUMNS; ++n) CAP_SCORES(sums->y[i][j].v[row][n], 1.0f);
      }
    }
  }
#endif
}

// What the tiles read and write.
typedef struct {
  __global float2* parts;
  __global ushort* e;
  __global float* references;
  __global uint* raised;
} HeadSums;

uint row_tiles_of(HeadProblem p) { return (p.T + TILE_ROWS - 1) / TILE_ROWS; }
// The words of the rows.
__global uint* raised_rows_of(HeadSums to, HeadProblem p) {
  return to.raised + 1 + row_tiles_of(p);
}

// Exponentials and sums of this lane's rows of a tile; shares [SUBGROUPS_ACROSS][TILE_ROWS].
INLINED void reduce_rows(MatrixUnit unit, const AllSums* sums, __local float2* shares, HeadSums to,
                         HeadProblem p, RasterTile at, Part part) {
  const uint v0 = at.column * TILE_COLUMNS + part.column;
  UNROLL for (uint i = 0; i < LEFTS; ++i) {
    UNROLL for (uint row = 0; row < SUM_ROWS; ++row) {
      const uint in_tile = row_of_left(part, i) + sum_row(unit, row);
      const uint t = at.row * TILE_ROWS + in_tile;
#ifdef LOSS_ALONE
      const float from = row_max(unit, max_logit(unit, sums, i, row, v0, p.V));
#else
      float from = t < p.T ? to.references[t] : NO_ROW;
      __global uint* raised = raised_rows_of(to, p) + t;
      if (p.again && t < p.T && raised[0] != 0) from = of_ordered(raised[0]);
#endif
      const float total =
          row_sum(unit, exponentials(unit, to.e + (size_t)t * p.e_stride, sums, i, row, from, v0,
                                     p, t < p.T));
#ifndef LOSS_ALONE
      if (total > LIMIT) {
        const float max_z = max_logit(unit, sums, i, row, v0, p.V);
        atomic_max(raised, ordered(max_z + MARGIN));
        atomic_max(to.raised + 1 + at.row, 1);
        atomic_max(to.raised, 1);
      }
#endif
      if (sum_column(unit, 0) == 0) {  // one of the lanes of a row
        shares[part.across * TILE_ROWS + in_tile] = (float2)(total, from);
      }
    }
  }
}

// Stores the tile's sums of its rows, those of the sub-groups in order.
INLINED void store_parts(__local const float2* shares, HeadSums to, HeadProblem p, RasterTile at) {
  __global float2* parts = to.parts + (size_t)(p.first_tile + at.column) * p.T;
  for (uint row = get_local_id(0); row < TILE_ROWS; row += ITEMS) {
    float2 sum = shares[row];
    for (uint n = 1; n < SUBGROUPS_ACROSS; ++n) sum = joined(sum, shares[n * TILE_ROWS + row]);
    if (at.row * TILE_ROWS + row < p.T) parts[at.row * TILE_ROWS + row] = sum;
  }
}

#ifndef LOSS_ALONE
// Rows whose reference has been raised: rescales dx and stores the reference.
INLINED void rescale_rows(__global float* dx, __global float* references,
                          __global const uint* raised_rows, HeadProblem p) {
  for (uint t = get_group_id(0); t < p.T; t += get_num_groups(0)) {
    if (raised_rows[t] == 0) continue;
    const float raised_to = of_ordered(raised_rows[t]), by = references[t] - raised_to;
    if (p.has_dx) {
      for (uint d = get_local_id(0); d < p.D; d += ITEMS) {
        dx[(size_t)t * p.D + d] = scaled(dx[(size_t)t * p.D + d], by);
      }
    }
    barrier(CLK_GLOBAL_MEM_FENCE);  // all items have read the reference
    if (get_local_id(0) == 0) references[t] = raised_to;
  }
}
#endif

__attribute__((reqd_work_group_size(ITEMS, 1, 1))) __kernel void head_exponentials_matrix(
    __global float2* parts, __global ushort* e, __global float* references,
    __global uint* raised, __global float* dx, __global const ushort* x,
    __global const ushort* w, HeadProblem p) {
  MATRIX_UNIT(unit, SUBGROUPS);
  __local uchar ring[STAGES * STAGE_BYTES] __attribute__((aligned(1024)));
  const HeadSums to = {parts, e, references, raised};
#ifdef LOSS_ALONE
  p.again = 0;
#else
  if (p.again && raised[0] == 0) return;
#endif
  const uint item = get_local_id(0);
  const Problem problem = {x, w, 0, 0, p.D, p.x_stride, p.w_stride, 0, 0};
  const RasterGrid grid =
      raster_grid(row_tiles_of(p), (p.V + TILE_COLUMNS - 1) / TILE_COLUMNS, p.group_m);
  for (uint number = get_group_id(0); number < grid.tiles; number += get_num_groups(0)) {
    const RasterTile at = raster_tile(grid, number);
    if (p.again && raised[1 + at.row] == 0) continue;
    const Tile tile = {at.row * TILE_ROWS, at.column * TILE_COLUMNS, p.T, p.V, 0, 0};
    AllSums sums;
    multiply_tile(unit, &sums, problem, tile, local_at(ring), part_of(item / LANES), item);
    cap_logits(&sums);
    // Registers are scarce while the tile is multiplied: this is computed afterwards.
    const RasterTile same = raster_tile(grid, fresh(number));
    __local float2* shares = (__local float2*)ring;
    reduce_rows(unit, &sums, shares, to, p, same, part_of(fresh(item) / LANES));
    barrier(CLK_LOCAL_MEM_FENCE);  // the sums of all sub-groups are there
    store_parts(shares, to, p, same);
    if (!p.again) return;
    barrier(CLK_LOCAL_MEM_FENCE);  // the sums are read before the ring is filled again
  }
#ifndef LOSS_ALONE
  rescale_rows(dx, references, raised_rows_of(to, p), p);
#endif
}
