// cross_entropy_head_wgmma: exponentials of a chunk of logits with Hopper's wgmma; the logits
// themselves are never stored.
//
//   z [T, V] = x [T, D] w [V, D]^T, in units of log 2: times log2(e)
//   e [T, V] = 2^(z - reference[t])
//   parts[n, t] = (sum of e[t, v] over the 256 v of tile n, the reference it is relative to)
//   -D LOSS_ALONE: parts only, each correct for any z
// Shapes  table: tensor maps (tensor_map.cl) of x, w and e, in boxes of 128, 256 and 64 rows;
//         after them the addresses of parts [tiles of the full vocabulary, T], references [T],
//         raised [1 + tiles of rows + T], zeros before the first launch of a chunk, and dx [T, D].
//         V is the size of this chunk; LOSS_ALONE has no e, raised and dx.
//         If split_tiles is less than the chunk's tiles of 256 entries, e is stored in slices of
//         split_tiles tiles, one below the other, each of split_rows rows; so is dx. Past V, e is
//         zero.
// Types   x, w and e bf16, parts float2, raised u32, all else f32
// Work    as gemm_wgmma, in tiles of 128 rows and 256 columns
// Local   STAGES * 48 KB, four boxes of 8 KB (not LOSS_ALONE), and mbarriers
// Cost    2 T V D flops
// Numerics  A row's reference is the logit of its target, which is at most the row's maximum, so no
//         significant term underflows. Exponentials up to LIMIT fit bf16, also in sums with w. A
//         tile that exceeds LIMIT records it in raised: a flag at [0], a flag at [1 + tile of
//         rows], and for the row the largest logit of these tiles plus MARGIN, so a second excess
//         is rare. A second launch with `again`, which returns at once if raised[0] is zero,
//         recomputes these tiles of rows, raised rows relative to their raised reference; it also
//         rescales what dx holds of them (in dx_splits slices) and stores the new reference. The
//         result does not depend on the order of the groups: the same bits every run.
//! clc: build on wgmma: STAGES=4
//! clc: build on wgmma: STAGES=4 LOSS_ALONE
//! clc: allow index-overflow tiles and their parts are numbered well below 2^31
#include "hopper/hopper.clh"
#include "hopper/hopper_lanes.clh"
#include "hopper/hopper_pipeline.clh"
#include "hopper/hopper_products.clh"
#include "hopper/hopper_stores.clh"
#include "raster_groups.clh"

#define TILE_ROWS 128
#define COLUMNS 256
#define X_BYTES (TILE_ROWS * 128)
#define STAGE_BYTES (X_BYTES + COLUMNS * 128)
#define BOX_BYTES 8192  // 64 rows
#define LOG2E 1.44269504f
#define LIMIT 0x1p90f
#define MARGIN 32.0f
#define NO_ROW 3e38f  // a reference that makes every exponential zero

// Maps floats to words of the same order; only a NaN can map to zero.
uint ordered(float x) {
  const uint bits = as_uint(x);
  return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}
float of_ordered(uint word) {
  return as_float(word & 0x80000000u ? word & 0x7fffffffu : ~word);
}
void raise_word(__global uint* word, uint to) {
  asm volatile("red.global.max.u32 [%0], %1;" ::"l"(word), "r"(to) : "memory");
}

// Stores the exponentials of 64 columns to a box and adds their sums to total, for the lane's two
// rows.
INLINED void exponentials(const float* z, const float* reference, float* total, uint box, uint warp,
                  uint lane) {
#pragma unroll
  for (uint block = 0; block < 4; ++block) {
    float e[8];
#pragma unroll
    for (uint i = 0; i < 8; ++i) {
      e[i] = exp2_of(fma(z[8 * block + i], LOG2E, -reference[i / 2 % 2]));
    }
    total[0] += (e[0] + e[1]) + (e[4] + e[5]);
    total[1] += (e[2] + e[3]) + (e[6] + e[7]);
#ifndef LOSS_ALONE
    store_8x8s(box_row_at(box, warp, lane, block), bf16_pair(e[0], e[1]), bf16_pair(e[2], e[3]),
               bf16_pair(e[4], e[5]), bf16_pair(e[6], e[7]));
#endif
  }
}

// Where the exponentials of a tile go: the warp group's two boxes, and the corner of its rows of e.
typedef struct {
  __global const uchar* map;
  uint boxes, column, row;
} Destination;

// Computes the exponentials of a tile and adds their sums to total; e leaves through two
// alternating boxes.
INLINED void make_exponentials(const float* sums, const float* reference, float* total,
                               Destination to, uint part, uint warp, uint lane, bool elected) {
#pragma unroll
  for (uint side = 0; side < COLUMNS / 64; ++side) {
    const uint box = to.boxes + side % 2 * BOX_BYTES;
#ifndef LOSS_ALONE
    if (elected) BULK_WAIT_GROUP_READ(1);
    named_barrier_sync(part);  // the box is free
#endif
    exponentials(sums + 32 * side, reference, total, box, warp, lane);
#ifndef LOSS_ALONE
    tma_store_fence();
    named_barrier_sync(part);  // the box is complete
    if (elected) tma_store_2d(to.map, box, to.column + 64 * side, to.row);
#endif
  }
}

// row *= 2^by, by a warp. Multiplies by the root of the factor twice: the factor itself may
// underflow.
void scale_row(__global float* row, float by, uint D, uint lane) {
  const float root = exp2_of(0.5f * by);
  for (uint d = lane; d < D; d += 32) row[d] = row[d] * root * root;
}

__attribute__((reqd_work_group_size(384, 1, 1))) __kernel void head_exponentials(
    __global const uchar* table, uint T, uint V, uint D, uint first_tile, uint split_tiles,
    uint split_rows, uint again, uint dx_splits, uint group_m) {
  HOPPER_KERNEL;
  __local uchar ring[STAGES * STAGE_BYTES] __attribute__((aligned(1024)));
#ifndef LOSS_ALONE
  __local uchar e_boxes[4 * BOX_BYTES] __attribute__((aligned(1024)));
#endif
  __local ulong barriers[2 * STAGES];
  __global const ulong* addresses = (__global const ulong*)(table + 3 * MAP_BYTES);
  __global float2* parts = (__global float2*)addresses[0];
  __global float* references = (__global float*)addresses[1];
  __global uint* raised = (__global uint*)addresses[2];
  __global float* dx = (__global float*)addresses[3];
  if (again && raised[0] == 0) return;
  const Ring stages = ring_at(shared_address(barriers), STAGES);
  const uint tiles_at = shared_address(ring);
  const uint item = get_local_id(0), steps = (D + 63) / 64;
  const uint row_tiles = (T + TILE_ROWS - 1) / TILE_ROWS;
  const uint split_columns = split_tiles * COLUMNS;
  const uint column_tiles = (V + split_columns - 1) / split_columns * split_tiles;
  const RasterGrid grid = raster_grid(row_tiles, column_tiles, group_m);
  if (item == 0) {
    ring_init(stages, STAGES, 2);
    fence_mbarrier_init();
    for (uint i = 0; i < 3; ++i) tensormap_acquire(table + i * MAP_BYTES);
  }
  barrier(CLK_LOCAL_MEM_FENCE);  // the mbarriers are initialised
  if (item < 128) {
    SETMAXNREG_DEC(40);
    if (item != 0) return;
    Stage stage = {0, 0};
    for (uint id = get_group_id(0); id < grid.tiles; id += get_num_groups(0)) {
      const RasterTile tile = raster_tile(grid, id);
      if (again && raised[1 + tile.row] == 0) continue;
      const uint t0 = tile.row * TILE_ROWS, v0 = tile.column * COLUMNS;
      for (uint k = 0; k < steps; ++k) {
        const uint to = tiles_at + stage.index * STAGE_BYTES;
        const uint ready = ring_acquire(stages, stage, STAGE_BYTES);
        tma_load_2d(to, table, 64 * k, t0, ready);
        tma_load_2d(to + X_BYTES, table + MAP_BYTES, 64 * k, v0, ready);
        stage = next_stage(stage, STAGES);
      }
    }
    return;
  }
  SETMAXNREG_INC(232);
  const uint part = item / 128 - 1, warp = item % 128 / 32, lane = item % 32;
  const bool elected = item % 128 == 0;
#ifdef LOSS_ALONE
  const uint boxes = 0;
#else
  const uint boxes = shared_address(e_boxes) + part * 2 * BOX_BYTES;
  if (elected) tensormap_acquire(table + 2 * MAP_BYTES);
#endif
  __global uint* raised_rows = raised + 1 + row_tiles;
  Consumer consumer = {{0, 0}, NO_STAGE};
  float sums[COLUMNS / 2];
  for (uint id = get_group_id(0); id < grid.tiles; id += get_num_groups(0)) {
    const RasterTile tile = raster_tile(grid, id);
    if (again && raised[1 + tile.row] == 0) continue;
    const uint t0 = tile.row * TILE_ROWS, v0 = tile.column * COLUMNS;
    for (uint k = 0; k < steps; ++k) {
      consume_begin(&consumer, stages);
      const uint at = tiles_at + consumer.stage.index * STAGE_BYTES;
      const ulong a = operand_at(at + part * BOX_BYTES), b = operand_at(at + X_BYTES);
      WGMMA_SS_BOX(COLUMNS, sums, a, b, NEXT_STEPS, k != 0, "0");
      consume_end(&consumer, stages, STAGES, elected);
    }
    WGMMA_WAIT_0(COLUMNS)(sums);
    consume_last(&consumer, stages, elected);

    const uint warp_row = t0 + part * 64 + warp * 16, row = warp_row + lane / 4;
    float reference[2], total[2] = {0, 0};
    for (uint i = 0; i < 2; ++i) {
      const uint t = row + 8 * i;
      reference[i] = t < T ? references[t] : NO_ROW;
      if (again && t < T && raised_rows[t] != 0) reference[i] = of_ordered(raised_rows[t]);
    }
    if (v0 + COLUMNS > V) {
#pragma unroll
      for (uint i = 0; i < COLUMNS / 2; ++i) {
        if (v0 + i / 4 * 8 + lane % 4 * 2 + i % 2 >= V) sums[i] = -INFINITY;
      }
    }
    const Destination to = {table + 2 * MAP_BYTES, boxes, v0 % split_columns,
                            v0 / split_columns * split_rows + t0 + 64 * part};
    make_exponentials(sums, reference, total, to, part, warp, lane, elected);
    total[0] = row_sum(total[0]);
    total[1] = row_sum(total[1]);
    if (warp_max(total[0] > LIMIT || total[1] > LIMIT)) {
      float max_z[2] = {-INFINITY, -INFINITY};
#pragma unroll
      for (uint i = 0; i < COLUMNS / 2; ++i) max_z[i / 2 % 2] = fmax(max_z[i / 2 % 2], sums[i]);
      for (uint i = 0; i < 2; ++i) {
        max_z[i] = row_max(max_z[i]) * LOG2E;
        if (!(total[i] > LIMIT)) continue;
#ifdef LOSS_ALONE
        reference[i] = max_z[i];
#else
        raise_word(raised_rows + row + 8 * i, ordered(max_z[i] + MARGIN));
        raise_word(raised + 1 + tile.row, 1);
        raise_word(raised, 1);
#endif
      }
      warp_sync();  // reconverges the warp for the following products
#ifdef LOSS_ALONE
      total[0] = total[1] = 0;
      make_exponentials(sums, reference, total, to, part, warp, lane, elected);
      total[0] = row_sum(total[0]);
      total[1] = row_sum(total[1]);
#endif
    }
    if (lane % 4 == 0 && v0 < V) {
      __global float2* to = parts + (size_t)(first_tile + v0 / COLUMNS) * T + row;
      if (row < T) to[0] = (float2)(total[0], reference[0]);
      if (row + 8 < T) to[8] = (float2)(total[1], reference[1]);
    }
  }
#ifndef LOSS_ALONE
  if (elected) bulk_wait_group();
  if (again) {
    for (uint t = get_group_id(0) * 8 + part * 4 + warp; t < T; t += get_num_groups(0) * 8) {
      if (raised_rows[t] == 0) continue;
      const float raised_to = of_ordered(raised_rows[t]);
      for (uint i = 0; i < dx_splits; ++i) {
        scale_row(dx + ((size_t)i * split_rows + t) * D, references[t] - raised_to, D, lane);
      }
      warp_sync();  // all lanes have read the reference
      if (lane == 0) references[t] = raised_to;
    }
  }
#endif
}
