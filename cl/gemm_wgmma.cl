// gemm_wgmma: products of bf16 matrices on Hopper's matrix units.
//
//   y [M, C] = x [M, J] w [C, J]^T + s [M, R] u [R, C] + start + bias
//   with -D TRANSPOSED   y [M, C] = x [M, J] w [J, C] + s [M, R] u [R, C] + start
// Shapes  x, w, s and u by their maps (cl/tensor_map.cl), which stand in this order, in boxes of 128
//         rows (x, s), COLUMNS rows (w, not transposed) or 64 rows; y and start [M, C], bias [C]
// Types   x, w, s and u bf16, read through their maps alone; all else f32
// Work    a persistent grid of work-groups of three warp groups: one thread of the first starts
//         copies of 64 steps of a tile of 128 rows of x and COLUMNS columns of w into a ring of
//         STAGES; the two others multiply 64 rows each, one group of products always in flight.
//         Tiles are taken in bands of `band` tile rows, column by column, so that those in flight
//         share x and w in the second-level cache.
// Local   STAGES * (128 + COLUMNS, a multiple of 64) * 128 bytes, and barriers
// Cost    2 M C (J + R) flops
// Numerics  products of bf16 are exact in f32; sums as the matrix unit makes them
#include "hopper.clh"
#include "hopper_products.clh"

#define TILE_ROWS 128
#define X_BYTES (TILE_ROWS * 128)
#define BOXES_ACROSS ((COLUMNS + 63) / 64)  // of a transposed w, and of u
#define STAGE_BYTES (X_BYTES + BOXES_ACROSS * PIECE_BYTES)
#define PIECE_BYTES 8192  // 64 rows
#define MAP_BYTES 128

// Two columns of one row of y: c is even.
void store_two(__global float* y, __global const float* start, __global const float* bias, uint c,
               uint C, float first, float second) {
  if (bias != 0) {
    first += bias[c];
    if (c + 1 < C) second += bias[c + 1];
  }
  if (C % 2 == 0) {
    float2 sums = (float2)(first, second);
    if (start != 0) sums += *(__global const float2*)(start + c);
    *(__global float2*)(y + c) = sums;
    return;
  }
  y[c] = start != 0 ? first + start[c] : first;
  if (c + 1 < C) y[c + 1] = start != 0 ? second + start[c + 1] : second;
}

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

// The stage's 64 steps; then the stage before is free.
#define MULTIPLY_STAGE(k, OPERAND, NEXT, transposed)                         \
  {                                                                          \
    const uint at = shared_address(ring) + stage * STAGE_BYTES;              \
    barrier_wait(full + 8 * stage, phase);                                   \
    PRODUCTS_FENCE;                                                          \
    const ulong a = operand_at(at + part * PIECE_BYTES);                     \
    const ulong b = OPERAND(at + X_BYTES);                                   \
    PRODUCT(COLUMNS)(sums, a, b, k != 0, transposed);                        \
    PRODUCT(COLUMNS)(sums, a + NEXT_STEPS, b + NEXT, 1, transposed);         \
    PRODUCT(COLUMNS)(sums, a + 2 * NEXT_STEPS, b + 2 * NEXT, 1, transposed); \
    PRODUCT(COLUMNS)(sums, a + 3 * NEXT_STEPS, b + 3 * NEXT, 1, transposed); \
    PRODUCTS_COMMIT;                                                         \
    PRODUCTS_BUT_ONE;                                                        \
    if (k > 0 && item % 128 == 0) barrier_arrive(empty + 8 * before);        \
    before = stage;                                                          \
    NEXT_STAGE                                                               \
  }

__attribute__((reqd_work_group_size(384, 1, 1))) __kernel void gemm_wgmma(
    __global float* y, __global const uchar* maps, __global const ushort* x,
    __global const ushort* w, __global const ushort* s, __global const ushort* u,
    __global const float* start, __global const float* bias, uint M, uint C, uint J, uint R,
    uint has_start, uint has_bias, uint band) {
  __local uchar ring[STAGES * STAGE_BYTES] __attribute__((aligned(1024)));
  __local ulong barriers[2 * STAGES];
  const uint full = shared_address(barriers), empty = full + 8 * STAGES;
  const uint item = get_local_id(0), w_boxes = (J + 63) / 64, boxes = w_boxes + (R + 63) / 64;
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
        const int low_rank = k >= w_boxes;
        const uint step = (low_rank ? k - w_boxes : k) * 64;
        barrier_wait(empty + 8 * stage, phase ^ 1);
        barrier_expect(ready, low_rank || IS_TRANSPOSED ? STAGE_BYTES : X_BYTES + COLUMNS * 128);
        copy_box(to, maps + (low_rank ? 2 * MAP_BYTES : 0), step, m0, ready);
        if (low_rank || IS_TRANSPOSED) {
          for (uint i = 0; i < BOXES_ACROSS; ++i) {
            copy_box(to + X_BYTES + i * PIECE_BYTES, maps + (low_rank ? 3 : 1) * MAP_BYTES,
                     c0 + i * 64, step, ready);
          }
        } else {
          copy_box(to + X_BYTES, maps + MAP_BYTES, step, c0, ready);
        }
        NEXT_STAGE
      }
    }
    return;
  }
  MORE_REGISTERS;
  const uint part = item / 128 - 1, lane = item % 32;
  const uint row = part * 64 + item % 128 / 32 * 16 + lane / 4;
  float sums[COLUMNS / 2];
  EACH_TILE {
    TILE_PLACE
    uint before = 0;
    for (uint k = 0; k < w_boxes; ++k) {
#ifdef TRANSPOSED
      MULTIPLY_STAGE(k, transposed_operand_at, NEXT_TRANSPOSED_STEPS, "1")
#else
      MULTIPLY_STAGE(k, operand_at, NEXT_STEPS, "0")
#endif
    }
    for (uint k = w_boxes; k < boxes; ++k) {
      MULTIPLY_STAGE(k, transposed_operand_at, NEXT_TRANSPOSED_STEPS, "1")
    }
    PRODUCTS_ENDED(COLUMNS)(sums);
    if (item % 128 == 0) barrier_arrive(empty + 8 * before);
#pragma unroll
    for (uint j = 0; j < COLUMNS / 8; ++j) {
      const uint c = c0 + 8 * j + 2 * (lane % 4);
      if (c >= C) continue;
#pragma unroll
      for (uint i = 0; i < 2; ++i) {
        const size_t at = (size_t)(m0 + row + 8 * i) * C;
        if (m0 + row + 8 * i < M) {
          store_two(y + at, has_start ? start + at : 0, has_bias ? bias : 0, c, C,
                    sums[4 * j + 2 * i], sums[4 * j + 2 * i + 1]);
        }
      }
    }
  }
}
