// gemm_matrix: products of bf16 matrices on a GPU's matrix unit (matrix_unit.clh).
//
//   y [M, C] = alpha x [M, K] w [C, K]^T + beta s [M, R] u [R, C] + addend + bias
//   TRANSPOSED         y [M, C] = alpha x [M, K] w [K, C] + beta s [M, R] u [R, C] + addend
//   SHRINK=16, 32, 48 or 64, at least R: the shrink is fused: saved = shrink_scale * x a [R, K]^T,
//                      and the left operand of u is bf16(term_scale * saved); a is passed as s
//   COLUMN_SCALE       the products are multiplied with column_scale [C] before the rest is added
//   ROW_GROUPS         each row has its own u, or none (gemm_epilogue.clh); s is given
//   PROBLEMS=2 or 3    grouped problems of one x: y_i [M, C_i] = x w_i^T + s_i u_i + bias_i;
//                      TRANSPOSED, in one sum: y = x w + s u + x_1 w_1 + s_1 u_1 + ... + addend
//   SPLIT_K            one problem: parts [slices, M, C], of K / slices steps each; then
//                      gemm_matrix_sum_slices: y = the sum of the parts + addend + bias
//
// Shapes  sizes and strides of rows in GemmMatrixProblem; bias [C]; saved [M, R]
// Types   x, w, s, a and u bf16; y and addend f32, or bf16 with -D Y_BF16; saved f32, or bf16 with
//         -D SAVED_BF16; bias and parts f32
// Work    a work-group owns a tile of TILE_ROWS x TILE_COLUMNS, a sub-group SUB_ROWS x SUB_COLUMNS
//         of it. Items copy STEPS steps of both operands ahead into a ring of STAGES stages, and
//         load the operands of the next 16 steps from local memory while those of this step are
//         multiplied. Tiles are taken in rasterisation groups (raster_groups.clh), so tiles in
//         flight share x and w in the cache.
// Tiles                     TILE_COLUMNS: w, then u   SHRINK: a
//                     STEPS |#######################|####|
//       TILE_ROWS: x, s |##|  =  tile of y           | s |    steps run over K and then R
//         Rows past M and columns past C are copies of the last ones; they are not stored. A fused
//         s is computed by each column of tiles and saved by the first one. Its rows are divided
//         among the sub-groups that share rows of x. With row groups, the ranks are repeated for
//         each group that the tile has rows of, with zeros in place of the other rows of s; they
//         are copied and multiplied in turn.
// Options LOW_RANK: s is given; ADDEND and BIAS if present; ALIGNED: C is a multiple of 8
// Local   STAGES * (TILE_ROWS + TILE_COLUMNS + SHRINK) * STEPS * 2 bytes
// Cost    2 M C (K + R) flops, and 2 M R K for each column of tiles if the shrink is fused
// Numerics  products of bf16 are exact in f32; sums as the unit computes them, steps in order, then
//         ranks; addend and bias are added in f32, slices in order
//! clc: build on mma: MMA_SYNC TILE_ROWS=128 TILE_COLUMNS=128 SUB_ROWS=64 SUB_COLUMNS=64 STEPS=32
//!     STAGES=3 Y_BF16 ALIGNED BIAS SHRINK=16 SAVED_BF16
//! clc: build on mma: MMA_SYNC TILE_ROWS=128 TILE_COLUMNS=256 SUB_ROWS=64 SUB_COLUMNS=64 STEPS=32
//!     STAGES=3 Y_BF16 ALIGNED ADDEND LOW_RANK TRANSPOSED PROBLEMS=2
//! clc: build on mma: MMA_SYNC TILE_ROWS=128 TILE_COLUMNS=128 SUB_ROWS=64 SUB_COLUMNS=64 STEPS=32
//!     STAGES=3 Y_BF16 ALIGNED ADDEND LOW_RANK COLUMN_SCALE ROW_GROUPS
//! clc: build on mfma: MFMA TILE_ROWS=128 TILE_COLUMNS=128 SUB_ROWS=64 SUB_COLUMNS=64 STEPS=32
//!     STAGES=3 Y_BF16 ALIGNED LOW_RANK TRANSPOSED
//! clc: build on wmma_gfx11: WMMA_GFX11 TILE_ROWS=64 TILE_COLUMNS=64 SUB_ROWS=32 SUB_COLUMNS=32
//!     STEPS=64 STAGES=3 Y_BF16 ALIGNED LOW_RANK TRANSPOSED
//! clc: build on wmma_gfx12: WMMA_GFX12 TILE_ROWS=128 TILE_COLUMNS=128 SUB_ROWS=64 SUB_COLUMNS=64
//!     STEPS=32 STAGES=3 Y_BF16 ALIGNED LOW_RANK TRANSPOSED
//! clc: build on xmx: XMX TILE_ROWS=32 TILE_COLUMNS=64 SUB_ROWS=16 SUB_COLUMNS=32 STEPS=64 STAGES=4
//!     Y_BF16 ALIGNED -cl-intel-256-GRF-per-thread
//! clc: budget of gemm_matrix on gfx90a spills=0
//! clc: budget of gemm_matrix on gfx942 spills=0
//! clc: budget of gemm_matrix on gfx1100 spills=0
//! clc: budget of gemm_matrix on gfx1201 spills=0
//! clc: budget of gemm_matrix on pvc spills=0
//! clc: build MMA_SYNC EMULATED TILE_ROWS=32 TILE_COLUMNS=64 SUB_ROWS=16 SUB_COLUMNS=32 STEPS=32
//!     STAGES=3 SHRINK=16 BIAS
//! clc: build MMA_SYNC EMULATED TILE_ROWS=32 TILE_COLUMNS=64 SUB_ROWS=16 SUB_COLUMNS=32 STEPS=32
//!     STAGES=3 LOW_RANK TRANSPOSED ADDEND SPLIT_K
//! clc: build MMA_SYNC EMULATED TILE_ROWS=32 TILE_COLUMNS=64 SUB_ROWS=16 SUB_COLUMNS=32 STEPS=32
//!     STAGES=3 LOW_RANK COLUMN_SCALE ROW_GROUPS
#include "gemm/gemm_epilogue.clh"
#include "gemm/gemm_groups.clh"
#include "gemm/gemm_matrix_problem.clh"
#include "matrix/matrix_unit.clh"
#include "raster_groups.clh"

#if !defined(TILE_ROWS) || !defined(TILE_COLUMNS) || !defined(SUB_ROWS) || !defined(SUB_COLUMNS)
#error "TILE_ROWS, TILE_COLUMNS, SUB_ROWS and SUB_COLUMNS are required"
#endif
#if !defined(STEPS) || STEPS % 32 != 0
#error "STEPS, a multiple of 32, is required"
#endif
#ifndef SHRINK
#define SHRINK 0
#endif
#ifdef TRANSPOSED
#define IS_TRANSPOSED 1
#else
#define IS_TRANSPOSED 0
#endif
#if SHRINK || defined(LOW_RANK)
#define HAS_RANKS 1
#else
#define HAS_RANKS 0
#endif

#define SUBGROUPS_ACROSS (TILE_COLUMNS / SUB_COLUMNS)
#define SUBGROUPS (TILE_ROWS / SUB_ROWS * SUBGROUPS_ACROSS)
#define ITEMS (SUBGROUPS * LANES)
#define LEFTS (SUB_ROWS / 16)
#define RIGHTS (SUB_COLUMNS / 16)
#include "gemm/gemm_matrix_epilogue.clh"

// Element i of a member with one element per problem.
#if PROBLEMS > 1
#define AT(i, values) ((i) == 0 ? (values)[0] : (i) == 1 ? (values)[1] : (values)[2])
#else
#define AT(i, values) (values)[0]
#endif
#define PROBLEM(i)                                                                            \
  {                                                                                           \
    OF(i, x), OF(i, w), OF(i, s), OF(i, u), AT(i, p.K), AT(i, p.x_stride), AT(i, p.w_stride), \
        AT(i, p.s_stride), AT(i, p.u_stride)                                                  \
  }
#ifdef COLUMN_SCALE
#define COLUMN_SCALES EACH(__global const float*, column_scale),
#define COLUMN_SCALE_OF(i) , OF(i, column_scale)
#else
#define COLUMN_SCALES
#define COLUMN_SCALE_OF(i)
#endif
#define IS_SUM (PROBLEMS > 1 && IS_TRANSPOSED)  // of the problems

INLINED uint stages_of(uint steps) { return (steps + STEPS - 1) / STEPS; }

// All but the copies of so many stages have arrived.
#if STAGES == 2
#define IN_FLIGHT 0
#elif STAGES == 3
#define IN_FLIGHT 1
#elif STAGES == 4
#define IN_FLIGHT 2
#elif STAGES == 5
#define IN_FLIGHT 3
#elif STAGES == 6
#define IN_FLIGHT 4
#else
#error "STAGES, 2 to 6, is required"
#endif

// The next stage has arrived, and all items have loaded the operands of the one before it.
#define NEXT_STAGE                \
  {                               \
    STAGE_WAIT(IN_FLIGHT);        \
    barrier(CLK_LOCAL_MEM_FENCE); \
  }
// Copies a portion of stage n, of steps or of ranks, if there is one.
#define COPY_STAGE(n, portion)                                                      \
  {                                                                                 \
    const LocalAt to = tiles + (n) % STAGES * STAGE_BYTES;                          \
    if ((n) < step_stages) {                                                        \
      if (IS_SUM && (portion) == 0 && source.left == 0) {                           \
        ++source_problem;                                                           \
        const Problem next = PROBLEM(source_problem);                               \
        begin_source(&source, next, tile, 0, fresh(item));                          \
      }                                                                             \
      copy_stage(&source, to, tile, item, portion);                                 \
    } else if (HAS_RANKS && (portion) == 0 && (n) < stages) {                       \
      const uint r = (n)-step_stages, of = IS_SUM ? r / rank_stages : problem;      \
      const Problem q = PROBLEM(of);                                                \
      copy_ranks(q, to, tile, (IS_SUM ? r % rank_stages : r) * STEPS, fresh(item)); \
    }                                                                               \
    if ((portion) + 1 == PORTIONS) STAGE_COMMIT;                                    \
  }
#define COPY_ALL(n) \
  UNROLL for (uint portion = 0; portion < PORTIONS; ++portion) COPY_STAGE(n, portion)

SUBGROUP_OF_LANES __attribute__((reqd_work_group_size(ITEMS, 1, 1))) __kernel void gemm_matrix(
    EACH(__global RESULT_TYPE*, y), EACH(__global const ushort*, x),
    EACH(__global const ushort*, w), EACH(__global const ushort*, s),
    EACH(__global const ushort*, u), EACH(__global SAVED_TYPE*, saved),
    EACH(__global const float*, bias), COLUMN_SCALES ROW_GROUPS_PARAMETER
    __global const Y_TYPE* addend, GemmMatrixProblem p) {
  MATRIX_UNIT(unit, SUBGROUPS);
  __local uchar ring[STAGES * STAGE_BYTES] __attribute__((aligned(1024)));
  const LocalAt tiles = local_at(ring);
  const uint item = get_local_id(0);
  const Part part = part_of(item / LANES);
#ifdef SPLIT_K
  const uint slices = p.slices;
#else
  const uint slices = 1;
#endif
  const uint number = get_group_id(0) / slices, slice = get_group_id(0) % slices;
  const uint row_tiles = (p.M + TILE_ROWS - 1) / TILE_ROWS, group_m = p.group_m;
  const uint tiles_0 = (p.C[0] + TILE_COLUMNS - 1) / TILE_COLUMNS;
#if PROBLEMS > 1 && !IS_TRANSPOSED
  const uint tiles_1 = (p.C[1] + TILE_COLUMNS - 1) / TILE_COLUMNS;
  const uint column_tiles = tiles_0 + tiles_1 + (p.C[2] + TILE_COLUMNS - 1) / TILE_COLUMNS;
#else
  const uint tiles_1 = 0, column_tiles = tiles_0;
#endif
  RASTER_TILE(number)
  const uint across = COLUMN_TILE;
  const uint problem = IS_TRANSPOSED || across < tiles_0 ? 0 : across < tiles_0 + tiles_1 ? 1 : 2;
  const uint first_tile = problem == 0 ? 0 : problem == 1 ? tiles_0 : tiles_0 + tiles_1;
  const Problem first = PROBLEM(problem);
  Tile tile = {
      ROW_TILE * TILE_ROWS, (across - first_tile) * TILE_COLUMNS, p.M, AT(problem, p.C), p.R, 0};
  if (IS_TRANSPOSED) tile.w_row = tile.m0 / p.split_rows * first.K;
#if IS_SUM
  const uint all_stages = stages_of(p.K[0]) + stages_of(p.K[1]) + stages_of(p.K[2]);
#else
  const uint all_stages = stages_of(first.K);
#endif
  const uint begin = all_stages * slice / slices;
  const uint step_stages = all_stages * (slice + 1) / slices - begin;
  const uint rank_stages = stages_of(p.R);
#ifdef ROW_GROUPS
  const uint stages = step_stages;  // those of ranks depend on the tile's rows
#else
  const uint stages =
      step_stages + (HAS_RANKS && slice + 1 == slices ? (IS_SUM ? PROBLEMS : 1) * rank_stages : 0);
#endif
  Source source;
  uint source_problem = 0;
  begin_source(&source, first, tile, begin * STEPS, item);
  AllSums sums;
  clear_sums(&sums);
  for (uint n = 0; n < STAGES - 1; ++n) COPY_ALL(n)
  NEXT_STAGE
  Operands operands[2];
  load_operands(unit, &operands[0], tiles, 0, part);
  uint slot = 0;
  for (uint n = 0; n < step_stages; ++n) {
    const LocalAt now = tiles + slot * STAGE_BYTES;
    slot = slot + 1 == STAGES ? 0 : slot + 1;
    const LocalAt next = tiles + slot * STAGE_BYTES;
    UNROLL for (uint k = 0; k < STEPS / 16; ++k) {
      const bool is_last = k + 1 == STEPS / 16;
      if (is_last) {
        NEXT_STAGE
      } else {
        COPY_STAGE(n + STAGES - 1, k)
      }
      // After the last stage, the next operands are not used.
      multiply_and_load(unit, &sums, &operands[k % 2], &operands[(k + 1) % 2], is_last ? next : now,
                        is_last ? 0 : 16 * k + 16, part);
    }
  }
#if SHRINK
  if (tile.c0 == 0 && part.across < SHRINK_PARTS) {
    save_shrink(unit, OF(problem, saved), &sums, p.shrink_scale, tile, part);
  }
#endif
#if HAS_RANKS
  scale_sums(&sums, p.rank_scale);
#ifdef ROW_GROUPS
  const uint row_end = slice + 1 == slices ? min(tile.M, tile.m0 + TILE_ROWS) : tile.m0;
  for (uint m = tile.m0; m < row_end; m = tile.group_end) {
    const uint adapter = row_adapter(row_groups, m);
    tile.group_begin = m;
    tile.group_end = row_group_end(row_groups, m, row_end);
    if (adapter == NO_ADAPTER) continue;
    Problem of = first;
    of.u += (size_t)adapter * p.R * of.u_stride;
    tile.R = row_ranks(row_groups, m, p.R);
    for (uint r = 0; r < tile.R; r += STEPS) {
      barrier(CLK_LOCAL_MEM_FENCE);  // all items have loaded the operands before these
      copy_ranks(of, tiles, tile, r, item);
      STAGE_COMMIT;
      STAGE_WAIT(0);
      barrier(CLK_LOCAL_MEM_FENCE);  // the ranks have arrived
      for (uint k = 0; k < STEPS && r + k < tile.R; k += 16) {
        load_ranks(unit, &operands[0], tiles, k, part);
        multiply_operands(unit, &sums, &operands[0]);
      }
    }
  }
#endif
  for (uint n = step_stages; n < stages; ++n) {
    const uint at = n % STAGES * STAGE_BYTES;
    const uint r = (IS_SUM ? (n - step_stages) % rank_stages : n - step_stages) * STEPS;
    COPY_ALL(n + STAGES - 1)
#if SHRINK
    stage_shrink(unit, ring + at, &sums, p.shrink_scale * p.term_scale, r, part);
    barrier(CLK_LOCAL_MEM_FENCE);  // s is complete
#endif
    for (uint k = 0; k < STEPS && r + k < p.R; k += 16) {
      load_ranks(unit, &operands[0], tiles + at, k, part);
      multiply_operands(unit, &sums, &operands[0]);
    }
    NEXT_STAGE
  }
#endif
  scale_sums(&sums, p.scale);
  const Extras extras = {addend, OF(problem, bias) COLUMN_SCALE_OF(problem)};
#ifdef SPLIT_K
  store_sums(unit, y + (size_t)slice * p.M * tile.C, &sums, extras, tile, part);
#else
  store_sums(unit, OF(problem, y), &sums, extras, tile, part);
#endif
}

#ifdef SPLIT_K
// Work: an item owns an element.
__kernel void gemm_matrix_sum_slices(__global Y_TYPE* y, __global const float* parts,
                                     __global const Y_TYPE* addend, __global const float* bias,
                                     COLUMN_SCALE_PARAMETER uint M, uint C, uint slices) {
  const size_t at = get_global_id(0), elements = (size_t)M * C;
  if (at >= elements) return;
  float sum = parts[at];
  for (uint slice = 1; slice < slices; ++slice) sum += parts[slice * elements + at];
#ifdef COLUMN_SCALE
  sum *= column_scale[at % C];
#endif
#ifdef ADDEND
  sum += OF_Y(addend[at]);
#endif
#ifdef BIAS
  sum += bias[at % C];
#endif
  y[at] = TO_Y(sum);
}
#endif
