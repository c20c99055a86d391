// attention_hdim64_wgmma: attention_wgmma.cl for head_dim 64, where the exponentials of a block
// take the GPU as long as its products, so the two must overlap.
//
//   y, log_sum_exp     as there
// Shapes  as there; E = HEAD_DIM = 64. The grid has at most as many work-groups as tiles.
// Types   as there
// Work    as there, with rings of 4, and:
//         - shared memory holds two tiles of queries with their coordinates and key ranges, so the
//           first warp is one tile ahead;
//         - a tile's first scores are multiplied together with the last values of the previous
//           tile, whose epilogue they overlap;
//         - the two warp groups issue products in turns (ping-pong): the softmax of one overlaps
//           the products of the other;
//         - the wait for the values' products is between a block's references and exponentials;
//         - a polynomial computes 6 of 64 exponentials, off the special-function unit.
// Local   166 KB
// Cost    as there
// Numerics as there; the polynomial's error is 2^-13, below that of a weight rounded to bf16; it
//         yields 2^-126 for a masked score
//! clc: build on wgmma: HEAD_DIM=64
//! clc: build on wgmma: HEAD_DIM=64 RESULT_BF16
#include "hopper/hopper.clh"
#include "hopper/hopper_lanes.clh"
#include "hopper/hopper_products.clh"
#include "hopper/hopper_rows.clh"
#include "attention/attention_wgmma.clh"

// A tile in shared memory, next to its queries.
struct Tile {
  struct Range range;
  int t0, h;
  int first[ROWS], last[ROWS];
};
#define QUERIES_AT (q_tiles + q_stage * TILE_BYTES)
#define NEXT_QUERIES \
  q_stage ^= 1;      \
  q_phase ^= q_stage ^ 1;

// PASS_TURN hands the turn to the other warp group.
#define AWAIT_TURN asm volatile("bar.sync %0, 256;" ::"r"(2 + part) : "memory")
#define PASS_TURN asm volatile("bar.arrive %0, 256;" ::"r"(3 - part) : "memory")

// 2^x for x <= 0, at least 2^-126: a cubic of the fraction left by rounding x to an integer.
float exp2_by_polynomial(float x) {
  x = fmax(x, -126.0f);
  const float shifted = x + 12582912.0f;  // 1.5 * 2^23: its low bits are x, rounded
  const float rest = x - (shifted - 12582912.0f);
  const float power =
      fma(fma(fma(0.0551716691f, rest, 0.242611122f), rest, 0.693260985f), rest, 0.999928074f);
  return as_float(as_uint(power) + (as_uint(shifted) << 23));
}
#define BY_POLYNOMIAL(i) ((i) >= 16 && ((i) + (i) / 4) % 8 == 7)
// Adds a dependence of x on an earlier exponential: otherwise the assembler schedules all
// polynomials first, and the special-function unit idles.
float after(float earlier, float x) {
  asm("fma.rn.f32 %0, %1, 0f00000000, %0;" : "+f"(x) : "f"(earlier));
  return x;
}
#define EXP2_OF_MANY(i, less)                                                               \
  BY_POLYNOMIAL(i)                                                                          \
  ? exp2_by_polynomial(fma(scores[i], scale_2, after(scores[((i) - 14) & 63], less))) : EXP2(i, less)

#define END_VALUES                                 \
  mbarrier_wait(v_full + 8 * before, before_phase); \
  WGMMA_WAIT_0(HEAD_DIM)(out);                     \
  if (elected) mbarrier_arrive(v_empty + 8 * before);

__attribute__((reqd_work_group_size(384, 1, 1))) __kernel void attention_hdim64_wgmma(
    __global RESULT* y, __global float* log_sum_exp, __global const uchar* maps,
    __global const int* first, __global const int* last, __global const int* order, int T, int H,
    int G, float scale, int keeps_log_sum_exp) {
  HOPPER_KERNEL;
  __local uchar tiles[(2 + 2 * RING) * TILE_BYTES] __attribute__((aligned(1024)));
  __local ulong barriers[4 + 4 * RING];
  __local struct Tile shared_tiles[2];
  MBARRIER_ADDRESSES(2)
  const uint q_tiles = shared_address(tiles), k_tiles = q_tiles + 2 * TILE_BYTES,
             v_tiles = k_tiles + RING * TILE_BYTES;
  const int item = get_local_id(0), lane = item % 32;
  INIT_WORK_GROUP(2)
  uint stage = 0, phase = 0, q_stage = 0, q_phase = 0;
  if (item < 128) {
    SETMAXNREG_DEC(40);
    if (item >= 32) return;
    EACH_TILE {
      TILE_COORDS
      const struct Range range = range_of(first, last, t0, T, lane);
      __local struct Tile* tile = shared_tiles + q_stage;
      int rows_first[ROWS / 32], rows_last[ROWS / 32];
#pragma unroll
      for (int i = 0; i < ROWS / 32; ++i) {
        const int t = t0 + 32 * i + lane;
        rows_first[i] = t < T ? first[t] : INT_MAX;
        rows_last[i] = t < T ? last[t] : -1;
      }
      mbarrier_wait(q_empty + 8 * q_stage, q_phase ^ 1);
#pragma unroll
      for (int i = 0; i < ROWS / 32; ++i) {
        tile->first[32 * i + lane] = rows_first[i];
        tile->last[32 * i + lane] = rows_last[i];
      }
      warp_sync();  // before the queries' mbarrier completes, all lanes have written
      if (lane == 0) {
        tile->range = range;
        tile->t0 = t0;
        tile->h = h;
        copy_tile(QUERIES_AT, maps, h, t0, q_full + 8 * q_stage);
        COPY_BLOCKS
      }
      NEXT_QUERIES
      warp_sync();
    }
    return;
  }
  SETMAXNREG_INC(232);
  CONSUMER_STATE
  if (part == 1) PASS_TURN;  // the first turn belongs to the other warp group
  mbarrier_wait(q_full, 0);
  mbarrier_wait(k_full, 0);
  WGMMA_FENCE;
  MULTIPLY_KEYS
  bool more = true;
  for (int round = 0; more; ++round) {
    const __local struct Tile* tile = shared_tiles + q_stage;
    const struct Range range = tile->range;
    const int t_0 = tile->t0 + row, h = tile->h;
    const int first_0 = tile->first[row], first_1 = tile->first[row + 8];
    const int last_0 = tile->last[row], last_1 = tile->last[row + 8];
    float max_0 = -INFINITY, max_1 = -INFINITY, total_0 = 0.0f, total_1 = 0.0f;
    int key = (range.end - 1) * ROWS;
    WGMMA_WAIT_0(128)(scores);
    if (elected) mbarrier_arrive(k_empty + 8 * stage);
    {
      MASK_BLOCK
      FIND_REFERENCES
      MAKE_WEIGHTS(EXP2_OF_MANY)
    }
    ROUND_WEIGHTS
    int keep = 0;
    for (int block = range.end - 2; block >= range.begin; --block) {
      const uint before = stage, before_phase = phase;
      NEXT_STAGE(RING)
      key = block * ROWS;
      mbarrier_wait(k_full + 8 * stage, phase);
      mbarrier_wait(v_full + 8 * before, before_phase);
      AWAIT_TURN;
      WGMMA_FENCE;
      MULTIPLY_KEYS
      MULTIPLY_VALUES(before, keep)
      keep = 1;
      PASS_TURN;
      WGMMA_WAIT_1(128)(scores);
      if (elected) mbarrier_arrive(k_empty + 8 * stage);
      MASK_BLOCK
      FIND_REFERENCES
      END_VALUES
      MAKE_WEIGHTS(EXP2_OF_MANY)
      SCALE_OUT
      ROUND_WEIGHTS
    }
    const uint before = stage, before_phase = phase;
    NEXT_STAGE(RING)
    NEXT_QUERIES
    more = tile_of(round + 1) < TILES;
    mbarrier_wait(v_full + 8 * before, before_phase);
    if (more) {
      mbarrier_wait(q_full + 8 * q_stage, q_phase);
      mbarrier_wait(k_full + 8 * stage, phase);
    }
    AWAIT_TURN;
    WGMMA_FENCE;
    MULTIPLY_VALUES(before, keep)
    MULTIPLY_KEYS  // of the next tile; unused after the last one
    PASS_TURN;
    total_0 = row_sum(total_0);
    total_1 = row_sum(total_1);
    WGMMA_WAIT_1(HEAD_DIM)(out);
    if (elected) {
      mbarrier_arrive(v_empty + 8 * before);
      mbarrier_arrive(q_empty + 8 * (q_stage ^ 1));  // all warps have read that tile
    }
    STORE_TILE
  }
  WGMMA_WAIT_0(128)(scores);
  if (part == 0) AWAIT_TURN;  // balances the arrivals and waits
}
