// gemm_wgmma: products of bf16 matrices on Hopper's matrix units.
//
//   y [M, C] = x [M, J] w [C, J]^T + s [M, R] u [R, C] + start + bias
//   with -D TRANSPOSED   y [M, C] = x [M, J] w [J, C] + s [M, R] u [R, C] + start
//   where rows from i * split_rows on, a multiple of 128, take w from its row i * J on
//   with -D SHRINK=16 or 64, at least R, s is made on the way of a [R, J]: kept = made_scale * x a^T,
//   and what is multiplied with u is bf16(term_scale * kept)
// Shapes  x, w, s (or a) and u by their maps (cl/tensor_map.cl), which stand in this order, in boxes of
//         128 rows (x, s), COLUMNS rows (w, not transposed), SHRINK rows (a) or 64 rows; those of u have
//         16 where R is at most 16; y and start [M, C], bias [C], kept [M, R]
// Types   x, w, s, a and u bf16, read through their maps alone; y and start f32, or bf16 with
//         -D Y_BF16; kept f32, or bf16 with -D KEPT_BF16; bias f32
// Work    a persistent grid of work-groups of three warp groups: one thread of the first starts
//         copies of 64 steps of a tile of 128 rows of x and COLUMNS columns of w into a ring of
//         STAGES; the two others multiply 64 rows each, one group of products always in flight.
//         Tiles are taken in bands of `band` tile rows, column by column, so that those in flight
//         share x and w in the second-level cache. Rows of a lie behind those of w and share their
//         products; each column of tiles makes s, the first keeps it.
// Options COLUMNS; WIDTH, of the products: COLUMNS + SHRINK; RANK_STEPS: of 16 each, 0, 1, or 4 for 64
//         ranks at once; ALIGNED: C is a multiple of 8
// Local   STAGES * (128 + the larger of WIDTH and COLUMNS as a multiple of 64) * 128 bytes, and barriers
// Cost    2 M C (J + R) flops, and 2 M R J for each column of tiles where s is made
// Numerics  products of bf16 are exact in f32; sums as the matrix unit makes them, start and bias
//         added in f32, results rounded to nearest even
#include "bf16_values.clh"
#include "hopper.clh"
#include "hopper_lanes.clh"
#include "hopper_products.clh"
#ifndef SHRINK
#define SHRINK 0
#endif
#ifndef WIDTH
#define WIDTH COLUMNS
#endif
#include "gemm_wgmma_ends.clh"

#define TILE_ROWS 128
#define X_BYTES (TILE_ROWS * 128)
#define PIECE_BYTES 8192  // 64 rows
#define MAP_BYTES 128
#define BOXES_ACROSS ((COLUMNS + 63) / 64)  // of a transposed w, and of u
#define ACROSS_BYTES (BOXES_ACROSS * PIECE_BYTES)
#define STAGE_BYTES (X_BYTES + (WIDTH * 128 > ACROSS_BYTES ? WIDTH * 128 : ACROSS_BYTES))
#define U_BYTES (BOXES_ACROSS * RANK_STEPS * 2048)

#ifdef TRANSPOSED
#define IS_TRANSPOSED 1
#else
#define IS_TRANSPOSED 0
#endif
#define NEXT_STAGE          \
  if (++stage == STAGES) {  \
    stage = 0;              \
    phase ^= 1;             \
  }
#define EACH_TILE \
  for (uint id = get_group_id(0); id < row_tiles * column_tiles; id += get_num_groups(0))
#define TILE_PLACE                                                  \
  const uint first_row = id / (band * column_tiles) * band;         \
  const uint band_rows = min(band, row_tiles - first_row);          \
  const uint in_band = id - first_row * column_tiles;               \
  const uint m0 = (first_row + in_band % band_rows) * TILE_ROWS;    \
  const uint c0 = in_band / band_rows * COLUMNS;

// The stage's products; then the stage before is free.
#define MULTIPLY_STAGE(has_before, products)                                \
  {                                                                         \
    const uint at = shared_address(ring) + stage * STAGE_BYTES;             \
    barrier_wait(full + 8 * stage, phase);                                  \
    PRODUCTS_FENCE;                                                         \
    products;                                                               \
    PRODUCTS_COMMIT;                                                        \
    PRODUCTS_BUT_ONE;                                                       \
    if (has_before && item % 128 == 0) barrier_arrive(empty + 8 * before);  \
    before = stage;                                                         \
    NEXT_STAGE                                                              \
  }
#define FOUR_PRODUCTS(N, keep, OPERAND, NEXT, transposed)                      \
  const ulong a = operand_at(at + part * PIECE_BYTES), b = OPERAND(at + X_BYTES); \
  PRODUCT(N)(sums, a, b, keep, transposed);                                    \
  PRODUCT(N)(sums, a + NEXT_STEPS, b + NEXT, 1, transposed);                   \
  PRODUCT(N)(sums, a + 2 * NEXT_STEPS, b + 2 * NEXT, 1, transposed);           \
  PRODUCT(N)(sums, a + 3 * NEXT_STEPS, b + 3 * NEXT, 1, transposed)
#define RANK_PRODUCT                                                                  \
  PRODUCT(COLUMNS)(sums, operand_at(at + part * PIECE_BYTES),                         \
                   transposed_operand_at(at + X_BYTES), 1, "1")
// Of s, which is in registers.
#define MADE_PRODUCT(i)                                                                    \
  REGISTERS_PRODUCT(COLUMNS)(sums, s_pairs + 4 * (i),                                      \
                             transposed_operand_at(at + X_BYTES) + (i) * NEXT_TRANSPOSED_STEPS, \
                             1, "1")

// The boxes of one transposed operand: 64 columns each, from c0 on.
void copy_across(uint to, __global const uchar* map, uint c0, uint step, uint ready) {
  for (uint i = 0; i < BOXES_ACROSS; ++i) copy_box(to + i * PIECE_BYTES, map, c0 + i * 64, step, ready);
}

__attribute__((reqd_work_group_size(384, 1, 1))) __kernel void gemm_wgmma(
    __global Y_TYPE* y, __global const uchar* maps, __global const ushort* x,
    __global const ushort* w, __global const ushort* s, __global const ushort* u,
    __global const Y_TYPE* start, __global const float* bias, __global KEPT_TYPE* kept, uint M, uint C,
    uint J, uint R, uint has_start, uint has_bias, uint band, float made_scale, float term_scale,
    uint split_rows) {
  __local uchar ring[STAGES * STAGE_BYTES] __attribute__((aligned(1024)));
  __local ulong barriers[2 * STAGES];
  const uint full = shared_address(barriers), empty = full + 8 * STAGES;
  const uint item = get_local_id(0), boxes = (J + 63) / 64, rank_boxes = RANK_STEPS > 0 ? (R + 63) / 64 : 0;
  const uint row_tiles = (M + TILE_ROWS - 1) / TILE_ROWS;
  const uint column_tiles = (C + COLUMNS - 1) / COLUMNS;
  if (item == 0) {
    for (uint i = 0; i < STAGES; ++i) {
      barrier_begin(full + 8 * i, 1);
      barrier_begin(empty + 8 * i, 2);
    }
    barriers_begun();
    for (uint i = 0; i < 4; ++i) map_written(maps + i * MAP_BYTES);
  }
  barrier(CLK_LOCAL_MEM_FENCE);  // all see the barriers
  uint stage = 0, phase = 0;
  if (item < 128) {
    FEWER_REGISTERS;
    if (item != 0) return;
    EACH_TILE {
      TILE_PLACE
      for (uint k = 0; k < boxes; ++k) {
        const uint to = shared_address(ring) + stage * STAGE_BYTES, ready = full + 8 * stage;
        barrier_wait(empty + 8 * stage, phase ^ 1);
        barrier_expect(ready, X_BYTES + (IS_TRANSPOSED ? ACROSS_BYTES : WIDTH * 128));
        copy_box(to, maps, k * 64, m0, ready);
        if (IS_TRANSPOSED) {
          copy_across(to + X_BYTES, maps + MAP_BYTES, c0, m0 / split_rows * J + k * 64, ready);
        } else {
          copy_box(to + X_BYTES, maps + MAP_BYTES, k * 64, c0, ready);
        }
        if (SHRINK) copy_box(to + X_BYTES + COLUMNS * 128, maps + 2 * MAP_BYTES, k * 64, 0, ready);
        NEXT_STAGE
      }
      for (uint k = 0; k < rank_boxes; ++k) {
        const uint to = shared_address(ring) + stage * STAGE_BYTES, ready = full + 8 * stage;
        barrier_wait(empty + 8 * stage, phase ^ 1);
        barrier_expect(ready, U_BYTES + (SHRINK ? 0 : X_BYTES));
        if (!SHRINK) copy_box(to, maps + 2 * MAP_BYTES, k * 64, m0, ready);
        copy_across(to + X_BYTES, maps + 3 * MAP_BYTES, c0, k * 64, ready);
        NEXT_STAGE
      }
    }
    return;
  }
  MORE_REGISTERS;
  const uint part = item / 128 - 1, lane = item % 32;
  const uint tile_row = part * 64 + item % 128 / 32 * 16 + lane / 4;
  float sums[WIDTH / 2];
  EACH_TILE {
    TILE_PLACE
    uint before = 0;
    for (uint k = 0; k < boxes; ++k) {
#ifdef TRANSPOSED
      MULTIPLY_STAGE(k > 0, FOUR_PRODUCTS(WIDTH, k != 0, transposed_operand_at, NEXT_TRANSPOSED_STEPS, "1"))
#else
      MULTIPLY_STAGE(k > 0, FOUR_PRODUCTS(WIDTH, k != 0, operand_at, NEXT_STEPS, "0"))
#endif
    }
#if SHRINK
    PRODUCTS_ENDED(WIDTH)(sums);
    uint s_pairs[SHRINK / 4];
    round_made(s_pairs, sums + COLUMNS / 2, made_scale * term_scale);
    if (c0 == 0) keep_made(kept, sums + COLUMNS / 2, made_scale, m0 + tile_row, lane, M, R);
#if SHRINK == 16
    MULTIPLY_STAGE(1, MADE_PRODUCT(0))
#else
    MULTIPLY_STAGE(1, MADE_PRODUCT(0); MADE_PRODUCT(1); MADE_PRODUCT(2); MADE_PRODUCT(3))
#endif
#elif RANK_STEPS == 1
    MULTIPLY_STAGE(1, RANK_PRODUCT)
#elif RANK_STEPS == 4
    for (uint k = 0; k < rank_boxes; ++k) {
      MULTIPLY_STAGE(1, FOUR_PRODUCTS(COLUMNS, 1, transposed_operand_at, NEXT_TRANSPOSED_STEPS, "1"))
    }
#endif
    PRODUCTS_ENDED(COLUMNS)(sums);
    if (item % 128 == 0) barrier_arrive(empty + 8 * before);
    const Extras extras = {has_start ? start : 0, has_bias ? bias : 0};
    store_sums(y, sums, extras, m0 + tile_row, c0, M, C, lane);
  }
}
