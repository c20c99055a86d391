// gemm_wgmma: products of bf16 matrices with Hopper's wgmma.
//
//   y [M, C] = x [M, J] w [C, J]^T + s [M, R] u [R, C] + addend + bias
//   TRANSPOSED         y [M, C] = x [M, J] w [J, C] + s [M, R] u [R, C] + addend
//                      where rows from i * split_rows on, a multiple of 128, use w from its row
//                      i * J on
//   SHRINK=16 or 64    at least R: the shrink is fused: saved = shrink_scale * x a [R, J]^T, and
//                      the left operand of u is bf16(term_scale * saved)
//   PROBLEMS=2 or 3    grouped problems of one x: y_i [M, C_i] = x w_i^T + s_i u_i + bias_i;
//                      TRANSPOSED, in one sum:
//                      y = x w + s u + x_1 w_1 + s_1 u_1 + ... + addend
//   COLUMN_SCALE       the sums of products are multiplied with column_scale_i [C_i] before the
//                      addend and the bias are added; not with ROW_SHRINK
//   ROW_SHRINK         s_i is computed first, for rows that have several adapters
//                      (gemm_wgmma_row_shrink.clh)
// Shapes  table: tensor maps (tensor_map.cl) of x, w, s (or a), u and y, grouped by problem, in
//         boxes of TILE_ROWS rows (x, s), COLUMNS rows (w, not transposed), SHRINK rows (a) or 64
//         rows; those of u have 16 rows if R is at most 16. After them the addresses of addend
//         [M, C] and parts, with ROW_SHRINK of x, row_groups and its own parts, then for each
//         problem y [M, C], bias [C] and saved [M, R]: 0 if absent, with COLUMN_SCALE also
//         column_scale_i, with ROW_SHRINK a_i and wide_i, and saved has the ranks of one adapter. Then words that are zero: with ROW_SHRINK two,
//         and shrink_blocks for its blocks; with SPLIT_K one for each 64 rows of a tile
// Types   x, w, s, a and u bf16, read through their maps only; y and addend f32, or bf16 with -D
//         Y_BF16; saved f32, or bf16 with -D SAVED_BF16; bias and parts f32
// Work    a persistent grid of work-groups of three warp groups: one thread of the first issues
//         copies of 64 steps of a tile of TILE_ROWS rows of x and COLUMNS columns of w into a ring
//         of STAGES; the two others multiply 64 rows each, with one group of products always in
//         flight. Tiles are taken in rasterisation groups of `group_m` tile rows, column by column,
//         so tiles in flight share x and w in the L2 cache. Rows of a follow those of w and share
//         their products; each column of tiles computes s, the first one saves it. SPLIT_K: each
//         tile's K extent is split into `slices`, one for each work-group; sums go to parts [tiles,
//         slices, 128, WIDTH], and the group that arrives last adds them and stores the tile.
//         With ROW_SHRINK the last slice adds them, while it waits for s.
//         ROW_SHRINK: the first `shrinking` groups compute s_i instead of tiles.
// Options TILE_ROWS: 128, or 64, which only one warp group multiplies; COLUMNS; WIDTH,
//         of the products: COLUMNS + SHRINK; RANK_STEPS: of 16 each, 0, 1, or 4 for
//         64 ranks at once; ADDEND and BIAS if present; ALIGNED: C is a multiple of 8; STAGED, with
//         it and Y_BF16: the number of columns of a tile, a multiple of 64, that are stored through
//         shared memory by TMA
// Local   STAGES * (TILE_ROWS + WIDTH) * 128 bytes, with COLUMNS rounded up to a multiple of 64 if
//         that is more and operands come as full boxes; STAGED * 256 bytes; mbarriers
// Cost    2 M C (J + R) flops, and 2 M R J for each column of tiles if the shrink is fused
// Numerics  products of bf16 are exact in f32; sums as the tensor core computes them; addend and
//         bias are added in f32, results rounded to nearest even. Split-K slices are added in a
//         fixed order, whichever arrives last: the same bits every run
//! clc: build on wgmma: COLUMNS=256 WIDTH=256 STAGES=4 RANK_STEPS=0 Y_BF16 ALIGNED STAGED=128
//! clc: build on wgmma: COLUMNS=128 WIDTH=144 STAGES=4 RANK_STEPS=1 SHRINK=16 Y_BF16 ALIGNED
//! clc: build on wgmma: COLUMNS=128 WIDTH=128 STAGES=4 RANK_STEPS=4 PROBLEMS=3 ROW_SHRINK Y_BF16
//!     ALIGNED SAVED_BF16 SPLIT_K
//! clc: build on wgmma: COLUMNS=160 WIDTH=160 STAGES=4 RANK_STEPS=4 PROBLEMS=2 Y_BF16 ALIGNED
//!     STAGED=128
//! clc: build on wgmma: COLUMNS=192 WIDTH=192 STAGES=4 RANK_STEPS=1 TRANSPOSED ADDEND ALIGNED
//! clc: build on wgmma: COLUMNS=128 WIDTH=144 STAGES=4 RANK_STEPS=1 SHRINK=16 Y_BF16 ALIGNED BIAS
//!     COLUMN_SCALE
//! clc: build on wgmma: COLUMNS=256 WIDTH=256 STAGES=4 RANK_STEPS=4 PROBLEMS=2 Y_BF16 ALIGNED
//!     STAGED=128 COLUMN_SCALE
#include "bf16_values.clh"
#include "hopper/hopper.clh"
#include "hopper/hopper_lanes.clh"
#include "hopper/hopper_pipeline.clh"
#include "hopper/hopper_products.clh"
#include "hopper/hopper_stores.clh"
#ifndef SHRINK
#define SHRINK 0
#endif
#ifndef WIDTH
#define WIDTH COLUMNS
#endif
#define SUBTILE_BYTES 8192  // 64 rows
#ifndef TILE_ROWS
#define TILE_ROWS 128
#endif
#define ROW_PARTS (TILE_ROWS / 64)  // warp groups that multiply
#include "gemm/gemm_wgmma_epilogue.clh"

#ifdef ROW_SHRINK
#include "gemm/gemm_wgmma_row_shrink.clh"
#define TILE_COUNTERS_AT (COUNTERS_OF_SHRINK + shrink_blocks)
#define ROW_SHRINK_PARAMETERS \
  , uint adapters, uint shrinking, uint shrink_slices, uint shrink_blocks
#else
#define TILE_COUNTERS_AT 0
#define ROW_SHRINK_PARAMETERS
#endif

#include "gemm/gemm_wgmma_tile_coords.clh"
#define X_BYTES (TILE_ROWS * 128)
#define PROBLEM_MAPS 5
#define MAPS_BYTES (PROBLEMS * PROBLEM_MAPS * MAP_BYTES)
// Indices of the table's addresses.
#define ADDEND_AT 0
#define PARTS_AT 1
#ifdef ROW_SHRINK
#define X_AT 2
#define ROW_GROUPS_AT 3
#define SHRINK_PARTS_AT 4
#define Y_AT(problem) (5 + 5 * (problem))
#define A_AT(problem) (Y_AT(problem) + 3)
#define WIDE_AT(problem) (Y_AT(problem) + 4)
#define COUNTERS_OF_SHRINK 2  // and one for each block, if its slices are added
#elif defined(COLUMN_SCALE)
#define Y_AT(problem) (2 + 4 * (problem))
#define SCALE_AT(problem) (Y_AT(problem) + 3)
#else
#define Y_AT(problem) (2 + 3 * (problem))
#endif
#define ADDRESSES Y_AT(PROBLEMS)
#define COUNTERS(table) ((__global uint*)((table) + MAPS_BYTES + 8 * ADDRESSES))
#define BIAS_AT(problem) (Y_AT(problem) + 1)
#define SAVED_AT(problem) (Y_AT(problem) + 2)
#define BOXES_ACROSS ((COLUMNS + 63) / 64)  // of a transposed w, and of u
#define ACROSS_BYTES (BOXES_ACROSS * SUBTILE_BYTES)
// Boxes of 64 columns need space in full; those of u with 16 rows fit in the space of w.
#if defined(TRANSPOSED) || RANK_STEPS == 4
#define W_BYTES (WIDTH * 128 > ACROSS_BYTES ? WIDTH * 128 : ACROSS_BYTES)
#else
#define W_BYTES (WIDTH * 128)
#endif
#define STAGE_BYTES (X_BYTES + W_BYTES)
#define RING_BYTES (STAGES * STAGE_BYTES)
#ifdef STAGED
#define STAGED_BYTES (STAGED * 128)  // of a warp group
#else
#define STAGED_BYTES 0
#endif
#define U_BYTES (BOXES_ACROSS * RANK_STEPS * 2048)

#ifdef TRANSPOSED
#define W_OPERAND transposed_operand_at
#define W_NEXT NEXT_TRANSPOSED_STEPS
#define W_TRANSPOSED "1"
#else
#define W_OPERAND operand_at
#define W_NEXT NEXT_STEPS
#define W_TRANSPOSED "0"
#endif
// The products of a stage at `at`, by a warp group. keep 0: the sums begin at zero.
INLINED void multiply_boxes(float* sums, uint at, uint part, int keep) {
  const ulong a = operand_at(at + part * SUBTILE_BYTES), b = W_OPERAND(at + X_BYTES);
  WGMMA_SS_BOX(WIDTH, sums, a, b, W_NEXT, keep, W_TRANSPOSED);
}
// The same of s and u: 16 or 64 ranks.
INLINED void multiply_ranks(float* sums, uint at, uint part) {
  const ulong a = operand_at(at + part * SUBTILE_BYTES), b = transposed_operand_at(at + X_BYTES);
#if RANK_STEPS == 4
  WGMMA_SS_BOX(COLUMNS, sums, a, b, NEXT_TRANSPOSED_STEPS, 1, "1");
#else
  WGMMA_SS(COLUMNS)(sums, a, b, 1, "1");
#endif
}
#if SHRINK
// The same with s in registers, as round_s() leaves it.
INLINED void multiply_s(float* sums, const uint* s_pairs, uint at) {
  const ulong u = transposed_operand_at(at + X_BYTES);
#pragma unroll
  for (uint i = 0; i < SHRINK / 16; ++i) {
    WGMMA_RS(COLUMNS)(sums, s_pairs + 4 * i, u + i * NEXT_TRANSPOSED_STEPS, 1, "1");
  }
}
#endif

// Copies the boxes of one transposed operand: 64 columns each, from c0 on.
void copy_across(uint to, __global const uchar* map, uint c0, uint step, uint ready) {
  for (uint i = 0; i < BOXES_ACROSS; ++i)
    tma_load_2d(to + i * SUBTILE_BYTES, map, c0 + i * 64, step, ready);
}

__global const uchar* problem_maps(__global const uchar* table, uint problem) {
  return table + problem * PROBLEM_MAPS * MAP_BYTES;
}
// Copies the box of 64 ranks of u for a tile, in the place of w in a stage.
void copy_u(uint stage_at, __global const uchar* maps, uint c0, uint box, uint ready) {
  copy_across(stage_at + X_BYTES, maps + 3 * MAP_BYTES, c0, box * 64, ready);
}

// Prefetches a tile's row of the addend into L2 while the tile is multiplied.
void prefetch_row(__global const Y_TYPE* addend, uint m, uint c0, uint C) {
#ifdef ALIGNED
  const uint bytes = min((uint)COLUMNS, C - c0) * (uint)sizeof(Y_TYPE);
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(addend + (size_t)m * C + c0),
               "r"(bytes)
               : "memory");
#endif
}

#ifdef ROW_SHRINK
// The blocks of all problems, by the shrinking groups in turn.
INLINED void shrink_rows(__global const ulong* addresses, RowShrink all, uint shrinking,
                         ShrinkScratch scratch) {
  const uint of_ranks = (all.ranks + SHRINK_RANKS - 1) / SHRINK_RANKS;
  const uint blocks = PROBLEMS * all.adapters * of_ranks * all.slices;
  const uint parts = max(1u, shrinking / blocks);
  for (uint i = get_group_id(0); i < blocks * parts; i += shrinking) {
    const uint block = i / all.slices;
    const ShrinkBlock at = {block / of_ranks / all.adapters % PROBLEMS,
                            block / of_ranks % all.adapters,
                            block % of_ranks * SHRINK_RANKS,
                            i % all.slices,
                            block / of_ranks / all.adapters / PROBLEMS,
                            parts};
    const RowShrinkProblem of = {(__global const ushort*)addresses[A_AT(at.problem)],
                                 (__global SAVED_TYPE*)addresses[SAVED_AT(at.problem)],
                                 (__global ushort*)addresses[WIDE_AT(at.problem)]};
    shrink_block(of, all, at, scratch);
  }
}
#endif

__attribute__((reqd_work_group_size(384, 1, 1))) __kernel void gemm_wgmma(
    __global uchar* table, uint M, uint C, OTHERS(uint, C) uint J, OTHERS(uint, J) uint R,
    uint group_m, float shrink_scale, float term_scale, uint split_rows,
    uint split_slices ROW_SHRINK_PARAMETERS) {
  HOPPER_KERNEL;
  __local uchar ring[RING_BYTES + ROW_PARTS * STAGED_BYTES] __attribute__((aligned(1024)));
  __local ulong barriers[2 * STAGES];
  __local ulong addresses_of_both[2 * ADDRESSES];
  // clc: allow clang-warning of SPLIT_K alone
  __local uint arrivals[2];
#ifdef ROW_SHRINK
  __global uint* shrink_counters = COUNTERS(table);
  if (get_group_id(0) < shrinking) {
    __global const ulong* of_table = (__global const ulong*)(table + MAPS_BYTES);
    const RowShrink all = {(__global const ushort*)of_table[X_AT],
                           (__global const uint*)of_table[ROW_GROUPS_AT],
                           M,
                           J,
                           R / adapters,
                           adapters,
                           shrink_scale,
                           term_scale,
                           shrink_slices,
                           (__global float*)of_table[SHRINK_PARTS_AT],
                           shrink_counters + COUNTERS_OF_SHRINK};
    shrink_rows(of_table, all, shrinking, shrink_scratch(ring));
    tell_shrunk(shrink_counters);
    return;
  }
  const uint first_id = get_group_id(0) - shrinking, groups = get_num_groups(0) - shrinking;
#else
  const uint first_id = get_group_id(0), groups = get_num_groups(0);
#endif
  const Ring stages = ring_at(shared_address(barriers), STAGES);
  const uint tiles_at = shared_address(ring);
  const uint item = get_local_id(0), rank_boxes = RANK_STEPS > 0 ? (R + 63) / 64 : 0;
  // Loaded while the mbarriers are initialised: item i of a warp group loads the i-th address.
  ulong address = 0;
  if (item % 128 < ADDRESSES) address = ((__global const ulong*)(table + MAPS_BYTES))[item % 128];
  const uint row_tiles = (M + TILE_ROWS - 1) / TILE_ROWS;
  const uint tiles = (C + COLUMNS - 1) / COLUMNS, boxes = (J + 63) / 64;
#if PROBLEMS > 1 && IS_TRANSPOSED
  const uint tiles_1 = 0, column_tiles = tiles;
  const uint boxes_1 = (J_1 + 63) / 64, all_boxes = boxes + boxes_1 + (J_2 + 63) / 64;
  const uint all_rank_boxes = PROBLEMS * rank_boxes;
#elif PROBLEMS > 1
  const uint tiles_1 = (C_1 + COLUMNS - 1) / COLUMNS, boxes_1 = 0;
  const uint column_tiles = tiles + tiles_1 + (C_2 + COLUMNS - 1) / COLUMNS;
  const uint all_boxes = boxes, all_rank_boxes = rank_boxes;
#else
  const uint tiles_1 = 0, column_tiles = tiles;
  const uint all_boxes = boxes, all_rank_boxes = rank_boxes;
#endif
#ifdef SPLIT_K
  const uint slices = split_slices;
#else
  const uint slices = 1;
#endif
  const GemmGrid grid = {raster_grid(row_tiles, column_tiles, group_m),
                         tiles, tiles_1, slices, all_boxes, all_rank_boxes};
  if (item == 0) {
    ring_init(stages, STAGES, ROW_PARTS);
    fence_mbarrier_init();
  }
  if (item < PROBLEMS * PROBLEM_MAPS) tensormap_acquire(table + item * MAP_BYTES);
  barrier(CLK_LOCAL_MEM_FENCE);  // the mbarriers are initialised
  if (item < 128) {
    SETMAXNREG_DEC(40);
    if (item != 0) return;
    Stage stage = {0, 0};
#ifdef ROW_SHRINK
    bool is_shrunk = false;
#endif
#ifdef ADDEND
    __global const Y_TYPE* addend = (__global const Y_TYPE*)address;  // the first one
#endif
    for (uint id = first_id; id < slices_of(grid); id += groups) {
      const GemmTile tile = gemm_tile(grid, id);
      const uint m0 = tile.m0, c0 = tile.c0;
      for (uint k = tile.box_0; k < tile.box_end; ++k) {
        const uint to = tiles_at + stage.index * STAGE_BYTES;
        const uint of = IS_TRANSPOSED ? PROBLEM_AT(k, boxes, boxes_1) : tile.problem;
        const uint step = (k - (IS_TRANSPOSED ? FIRST_OF(of, boxes, boxes_1) : 0)) * 64;
        __global const uchar* map = problem_maps(table, of);
        const uint ready = ring_acquire(
            stages, stage, X_BYTES + (IS_TRANSPOSED ? ACROSS_BYTES : WIDTH * 128));
        tma_load_2d(to, map, step, m0, ready);
        if (IS_TRANSPOSED) {
          copy_across(to + X_BYTES, map + MAP_BYTES, c0, m0 / split_rows * J + step, ready);
        } else {
          tma_load_2d(to + X_BYTES, map + MAP_BYTES, step, c0, ready);
        }
        if (SHRINK) tma_load_2d(to + X_BYTES + COLUMNS * 128, map + 2 * MAP_BYTES, step, 0, ready);
#ifdef ADDEND
        for (uint m = m0 + k; m < min(m0 + TILE_ROWS, M); m += all_boxes) {
          prefetch_row(addend, m, c0, C);
        }
#endif
        stage = next_stage(stage, STAGES);
      }
      uint k = 0;
#ifdef ROW_SHRINK
      // u is copied while s is awaited, into no more stages than the ring has.
      __global const uchar* maps_of_tile = problem_maps(table, tile.problem);
      const uint ahead = is_shrunk ? 0 : min(tile.rank_end, (uint)STAGES);
      Stage of_s = stage;
      for (; k < ahead; ++k) {
        const uint ready = ring_acquire(stages, stage, U_BYTES + X_BYTES);
        copy_u(tiles_at + stage.index * STAGE_BYTES, maps_of_tile, c0, k, ready);
        stage = next_stage(stage, STAGES);
      }
      if (ahead > 0) {
        await_shrunk(shrink_counters, shrinking, groups);
        is_shrunk = true;
      }
      for (uint i = 0; i < ahead; ++i) {
        tma_load_2d(tiles_at + of_s.index * STAGE_BYTES, maps_of_tile + 2 * MAP_BYTES, i * 64, m0,
                    stages.full + 8 * of_s.index);
        of_s = next_stage(of_s, STAGES);
      }
#endif
      for (; k < tile.rank_end; ++k) {
        const uint to = tiles_at + stage.index * STAGE_BYTES;
        const uint of = IS_TRANSPOSED ? k / rank_boxes : tile.problem;
        const uint box = IS_TRANSPOSED ? k % rank_boxes : k;
        __global const uchar* maps = problem_maps(table, of);
        const uint ready = ring_acquire(stages, stage, U_BYTES + (SHRINK ? 0 : X_BYTES));
        if (!SHRINK) tma_load_2d(to, maps + 2 * MAP_BYTES, box * 64, m0, ready);
        copy_u(to, maps, c0, box, ready);
        stage = next_stage(stage, STAGES);
      }
    }
#ifdef ROW_SHRINK
    if (!is_shrunk) await_shrunk(shrink_counters, shrinking, groups);  // all groups are counted
#endif
    return;
  }
  SETMAXNREG_INC(232);
  const uint part = item / 128 - 1, lane = item % 32;
  if (part >= ROW_PARTS) return;
  const bool elected = item % 128 == 0;  // issues what one item of a warp group issues
  const uint tile_row = part * 64 + item % 128 / 32 * 16 + lane / 4;
  // Each warp group has its own copy, so no other threads wait for it.
  __local ulong* addresses = addresses_of_both + part * ADDRESSES;
  if (item % 128 < ADDRESSES) addresses[item % 128] = address;
  named_barrier_sync(part);  // the addresses are written
#ifdef SPLIT_K
  const Slices split = {(__global float4*)addresses[PARTS_AT],
                        COUNTERS(table) + TILE_COUNTERS_AT, slices};
#endif
  Consumer consumer = {{0, 0}, NO_STAGE};
  float sums[WIDTH / 2];
  for (uint id = first_id; id < slices_of(grid); id += groups) {
    const GemmTile tile = gemm_tile(grid, id);
    const uint m0 = tile.m0, c0 = tile.c0, problem = tile.problem;
    const uint C_of_tile = C_OF_PROBLEM(problem);
    for (uint k = tile.box_0; k < tile.box_end; ++k) {
      consume_begin(&consumer, stages);
      multiply_boxes(sums, tiles_at + consumer.stage.index * STAGE_BYTES, part, k != tile.box_0);
      consume_end(&consumer, stages, STAGES, elected);
    }
#if defined(SPLIT_K) && defined(ROW_SHRINK)
    WGMMA_WAIT_0(WIDTH)(sums);
    consume_last(&consumer, stages, elected);
    if (!join_slices(sums, split, tile.number, tile.slice, part)) continue;
#endif
    const uint row = m0 + tile_row;
    const Extras extras = {(__global const Y_TYPE*)addresses[ADDEND_AT],
                           (__global const float*)addresses[BIAS_AT(problem)],
#ifdef COLUMN_SCALE
                           (__global const float*)addresses[SCALE_AT(problem)]
#endif
    };
    Added added[AHEAD + 1];
#ifndef SPLIT_K
    load_first(added, extras, row, c0, M, C_of_tile, lane);  // during the last products
#endif
    bool runs_epilogue = true;
#if SHRINK
    WGMMA_WAIT_0(WIDTH)(sums);
#ifdef SPLIT_K
    runs_epilogue = add_slices(sums, split, tile.number, tile.slice, part, arrivals);
#endif
    uint s_pairs[SHRINK / 4];
    round_s(s_pairs, sums + COLUMNS / 2, shrink_scale * term_scale);
    if (c0 == 0 && runs_epilogue) {
      store_s((__global SAVED_TYPE*)addresses[SAVED_AT(problem)], sums + COLUMNS / 2, shrink_scale,
              row, lane, M, R);
    }
    consume_begin(&consumer, stages);
    multiply_s(sums, s_pairs, tiles_at + consumer.stage.index * STAGE_BYTES);
    consume_end(&consumer, stages, STAGES, elected);
#elif RANK_STEPS
    for (uint k = 0; k < tile.rank_end; ++k) {
      consume_begin(&consumer, stages);
      multiply_ranks(sums, tiles_at + consumer.stage.index * STAGE_BYTES, part);
      consume_end(&consumer, stages, STAGES, elected);
    }
#endif
    WGMMA_WAIT_0(COLUMNS)(sums);
    consume_last(&consumer, stages, elected);
#if !SHRINK && defined(SPLIT_K) && !defined(ROW_SHRINK)
    runs_epilogue = add_slices(sums, split, tile.number, tile.slice, part, arrivals);
#endif
    if (!runs_epilogue) continue;
#ifdef SPLIT_K
    load_first(added, extras, row, c0, M, C_of_tile, lane);
#endif
    const uint boxes_at = shared_address(ring) + RING_BYTES + part * STAGED_BYTES;
#ifdef STAGED
    if (elected) BULK_WAIT_GROUP_READ(0);
    named_barrier_sync(part);  // the boxes of the previous tile have been stored
#endif
    store_sums((__global Y_TYPE*)addresses[Y_AT(problem)], sums, added, extras, row, c0, M,
               C_of_tile, lane, boxes_at, item % 128 / 32);
#ifdef STAGED
    tma_store_fence();
    named_barrier_sync(part);  // the boxes are complete
    if (elected) {
      for (uint i = 0; i < STAGED / 64; ++i) {
        tma_store_2d(table + (problem * PROBLEM_MAPS + 4) * MAP_BYTES, boxes_at + i * SUBTILE_BYTES,
                     c0 + 64 * i, m0 + 64 * part);
      }
    }
#endif
  }
#ifdef STAGED
  if (elected) bulk_wait_group();
#endif
}
