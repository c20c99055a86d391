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
//! clc: build on wgmma: HEAD_DIM=64 RESULT_TYPE={f32,bf16,f16}
#include "hopper/hopper.clh"
#include "hopper/hopper_lanes.clh"
#include "hopper/hopper_pipeline.clh"
#include "hopper/hopper_products.clh"
#include "hopper/hopper_rows.clh"

// 2^x for x <= 0, at least 2^-126: a cubic of the fraction left by rounding x to an integer.
float exp2_by_polynomial(float x) {
  x = fmax(x, -126.0f);
  const float shifted = x + 12582912.0f;  // 1.5 * 2^23: its low bits are x, rounded
  const float rest = x - (shifted - 12582912.0f);
  const float power =
      fma(fma(fma(0.0551716691f, rest, 0.242611122f), rest, 0.693260985f), rest, 0.999928074f);
  return as_float(as_uint(power) + (as_uint(shifted) << 23));
}
// Adds a dependence of x on an earlier exponential: otherwise the assembler schedules all
// polynomials first, and the special-function unit idles.
float after(float earlier, float x) {
  asm("fma.rn.f32 %0, %1, 0f00000000, %0;" : "+f"(x) : "f"(earlier));
  return x;
}
INLINED float exponential(const float* scores, int i, float scale_2, float less) {
  const bool by_polynomial = i >= 16 && (i + i / 4) % 8 == 7;
  if (!by_polynomial) return exp2_of(fma(scores[i], scale_2, less));
  return exp2_by_polynomial(fma(scores[i], scale_2, after(scores[(i - 14) & 63], less)));
}
#include "attention/attention_wgmma.clh"

// A tile in shared memory, next to its queries.
struct Tile {
  struct Range range;
  int t0, h;
  int first[ROWS], last[ROWS];
};

// The two warp groups take turns in issuing products. pass_turn() hands the turn to the other one.
INLINED void await_turn(int part) {
  asm volatile("bar.sync %0, 256;" ::"r"(2 + part) : "memory");
}
INLINED void pass_turn(int part) {
  asm volatile("bar.arrive %0, 256;" ::"r"(3 - part) : "memory");
}

__attribute__((reqd_work_group_size(384, 1, 1))) __kernel void attention_hdim64_wgmma(
    __global RESULT* y, __global float* log_sum_exp, __global const uchar* maps,
    __global const int* first, __global const int* last, __global const int* order, int T, int H,
    int G, float scale, int keeps_log_sum_exp) {
  HOPPER_KERNEL;
  __local uchar tiles[(2 + 2 * RING) * TILE_BYTES] __attribute__((aligned(1024)));
  __local ulong barriers[RINGS_WORDS(2)];
  __local struct Tile shared_tiles[2];
  const Rings rings = rings_at(shared_address(barriers), 2);
  const uint q_tiles = shared_address(tiles), k_tiles = q_tiles + 2 * TILE_BYTES,
             v_tiles = k_tiles + RING * TILE_BYTES;
  const int item = get_local_id(0), lane = item % 32;
  init_work_group(rings, 2, maps);
  Stage stage = {0, 0}, q_stage = {0, 0};
  if (item < 128) {
    SETMAXNREG_DEC(40);
    if (item >= 32) return;
    for (int round = 0; tile_of(round) < tiles_of(T, H); ++round) {
      const int h = tile_of(round) % H, t0 = order[tile_of(round) / H] * ROWS;
      const struct Range range = range_of(first, last, t0, T, lane);
      __local struct Tile* tile = shared_tiles + q_stage.index;
      int rows_first[ROWS / 32], rows_last[ROWS / 32];
#pragma unroll
      for (int i = 0; i < ROWS / 32; ++i) {
        const int t = t0 + 32 * i + lane;
        rows_first[i] = t < T ? first[t] : INT_MAX;
        rows_last[i] = t < T ? last[t] : -1;
      }
      mbarrier_wait(rings.q.empty + 8 * q_stage.index, q_stage.phase ^ 1);
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
        const uint ready = rings.q.full + 8 * q_stage.index;
        mbarrier_arrive_expect_tx(ready, TILE_BYTES);
        copy_tile(q_tiles + q_stage.index * TILE_BYTES, maps, h, t0, ready);
        stage = copy_blocks(rings, stage, k_tiles, v_tiles, maps, h / (H / G), range);
      }
      q_stage = next_stage(q_stage, 2);
      warp_sync();
    }
    return;
  }
  SETMAXNREG_INC(232);
  const int part = item / 128 - 1;
  const bool elected = item % 128 == 0;
  const int row = part * 64 + item % 128 / 32 * 16 + lane / 4;  // the lane's first of a tile
  const uint queries = q_tiles + part * 8192;                   // of this warp group, stage 0
  const float scale_2 = scale * LOG2_E;                         // scores in units of log 2
  const Results results = {y, log_sum_exp, keeps_log_sum_exp, T, H};
  float scores[64], out[HEAD_DIM / 2];
  uint weights[8][4];
  if (part == 1) pass_turn(part);  // the first turn belongs to the other warp group
  ring_await(rings.q, q_stage);
  ring_await(rings.k, stage);
  WGMMA_FENCE;
  multiply_keys(scores, queries, k_tiles);
  bool more = true;
  for (int round = 0; more; ++round) {
    const __local struct Tile* tile = shared_tiles + q_stage.index;
    const struct Range range = tile->range;
    const int t = tile->t0 + row, h = tile->h;
    const RowKeys keys = {{tile->first[row], tile->first[row + 8]},
                          {tile->last[row], tile->last[row + 8]}};
    Softmax softmax;
    begin_softmax(&softmax);
    WGMMA_WAIT_0(128)(scores);
    if (elected) ring_release(rings.k, stage.index);
    mask_block(scores, keys, (range.end - 1) * ROWS, range, lane);
    find_references(&softmax, scores, scale_2);
    make_weights(&softmax, scores, scale_2);
    round_weights(weights, scores);
    int keep = 0;
    for (int block = range.end - 2; block >= range.begin; --block) {
      const Stage before = stage;
      stage = next_stage(stage, RING);
      ring_await(rings.k, stage);
      ring_await(rings.v, before);
      await_turn(part);
      WGMMA_FENCE;
      multiply_keys(scores, queries + q_stage.index * TILE_BYTES,
                    k_tiles + stage.index * TILE_BYTES);
      multiply_values(out, weights, v_tiles + before.index * TILE_BYTES, keep);
      keep = 1;
      pass_turn(part);
      WGMMA_WAIT_1(128)(scores);
      if (elected) ring_release(rings.k, stage.index);
      mask_block(scores, keys, block * ROWS, range, lane);
      find_references(&softmax, scores, scale_2);
      // The phase is long complete; the wait ends a basic block, so the assembler does not move the
      // wait for the products before the search for references.
      ring_await(rings.v, before);
      WGMMA_WAIT_0(HEAD_DIM)(out);
      if (elected) ring_release(rings.v, before.index);
      make_weights(&softmax, scores, scale_2);
      scale_out(out, &softmax);
      round_weights(weights, scores);
    }
    const Stage before = stage;
    const uint read = q_stage.index;
    stage = next_stage(stage, RING);
    q_stage = next_stage(q_stage, 2);
    more = tile_of(round + 1) < tiles_of(T, H);
    ring_await(rings.v, before);
    if (more) {
      ring_await(rings.q, q_stage);
      ring_await(rings.k, stage);
    }
    await_turn(part);
    WGMMA_FENCE;
    multiply_values(out, weights, v_tiles + before.index * TILE_BYTES, keep);
    // Of the next tile; unused after the last one.
    multiply_keys(scores, queries + q_stage.index * TILE_BYTES, k_tiles + stage.index * TILE_BYTES);
    pass_turn(part);
    softmax.total[0] = row_sum(softmax.total[0]);
    softmax.total[1] = row_sum(softmax.total[1]);
    WGMMA_WAIT_1(HEAD_DIM)(out);
    if (elected) {
      ring_release(rings.v, before.index);
      ring_release(rings.q, read);  // all warps have read that tile
    }
    store_tile(results, out, &softmax, t, h, scale, lane);
  }
  WGMMA_WAIT_0(128)(scores);
  if (part == 0) await_turn(part);  // balances the arrivals and waits
}
