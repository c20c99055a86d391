// attention_wgmma: grouped-query attention over ranges of keys, forward, with Hopper's wgmma.
//
//   y[t, h] = sum_k p_k v[k, g],  p = softmax_k(scale * q[t, h] . k[k, g]),  g = h / (H / G)
//   log_sum_exp[t, h] = log sum_k exp(scale * q[t, h] . k[k, g]),  k in first[t] .. last[t]
// Shapes  q [T, H, E], k and v [Tk, G, E] by their tensor maps (tensor_map.cl) in this order, in
//         boxes of 128 rows; y [T, H, E]; first, last [T] i32; log_sum_exp [T, H]; E = HEAD_DIM =
//         128
//         order: cl/attention/attention_order.cl
// Types   q, k and v bf16, read through their maps only; y of -D RESULT_TYPE: f32, bf16
//         or f16; else f32
// Work    a persistent grid of work-groups of three warp groups; a tile is 128 rows of one head.
//         The first warp computes each tile's range of keys and issues copies of blocks of 128
//         keys, and of their values, into rings of 2; the two other warp groups own 64 rows each.
//         Blocks of keys are taken from the last to the first; blocks that no row of the tile
//         attends to are skipped. The softmax of one block overlaps the product with the previous
//         block's values: the weights stay in registers, as that product's left operand. For
//         head_dim 64 see attention_hdim64_wgmma.cl.
// Local   164 KB
// Cost    4 E flops a (query, key) pair and head
// Numerics online softmax (Milakov and Gimelshein, 2018) in f32; weights are rounded to bf16
//! clc: build on wgmma: HEAD_DIM=128 RESULT_TYPE={f32,bf16,f16}
#include "hopper/hopper.clh"
#include "hopper/hopper_lanes.clh"
#include "hopper/hopper_pipeline.clh"
#include "hopper/hopper_products.clh"
#include "hopper/hopper_rows.clh"

INLINED float exponential(const float* scores, int i, float scale_2, float less) {
  return exp2_of(fma(scores[i], scale_2, less));
}
#include "attention/attention_wgmma.clh"

__attribute__((reqd_work_group_size(384, 1, 1))) __kernel void attention_wgmma(
    __global RESULT* y, __global float* log_sum_exp, __global const uchar* maps,
    __global const int* first, __global const int* last, __global const int* order, int T, int H,
    int G, float scale, int keeps_log_sum_exp) {
  HOPPER_KERNEL;
  __local uchar tiles[(1 + 2 * RING) * TILE_BYTES] __attribute__((aligned(1024)));
  __local ulong barriers[RINGS_WORDS(1)];
  __local struct Range shared_range;
  const Rings rings = rings_at(shared_address(barriers), 1);
  const uint q_tile = shared_address(tiles), k_tiles = q_tile + TILE_BYTES,
             v_tiles = k_tiles + RING * TILE_BYTES;
  const int item = get_local_id(0), lane = item % 32;
  init_work_group(rings, 1, maps);
  Stage stage = {0, 0}, q_stage = {0, 0};
  if (item < 128) {
    SETMAXNREG_DEC(40);
    if (item >= 32) return;
    for (int round = 0; tile_of(round) < tiles_of(T, H); ++round) {
      const int h = tile_of(round) % H, t0 = order[tile_of(round) / H] * ROWS;
      const struct Range range = range_of(first, last, t0, T, lane);
      if (lane == 0) {
        mbarrier_wait(rings.q.empty, q_stage.phase ^ 1);
        shared_range = range;
        mbarrier_arrive_expect_tx(rings.q.full, TILE_BYTES);
        copy_tile(q_tile, maps, h, t0, rings.q.full);
        stage = copy_blocks(rings, stage, k_tiles, v_tiles, maps, h / (H / G), range);
      }
      q_stage = next_stage(q_stage, 1);
      warp_sync();
    }
    return;
  }
  SETMAXNREG_INC(232);
  const int part = item / 128 - 1;
  const bool elected = item % 128 == 0;
  const int row = part * 64 + item % 128 / 32 * 16 + lane / 4;  // the lane's first of a tile
  const uint queries = q_tile + part * 8192;                    // of this warp group
  const float scale_2 = scale * LOG2_E;                         // scores in units of log 2
  const Results results = {y, log_sum_exp, keeps_log_sum_exp, T, H};
  float scores[64], out[HEAD_DIM / 2];
  uint weights[8][4];
  for (int round = 0; tile_of(round) < tiles_of(T, H); ++round) {
    const int h = tile_of(round) % H, t = order[tile_of(round) / H] * ROWS + row;
    RowKeys keys;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      keys.first[i] = t + 8 * i < T ? first[t + 8 * i] : INT_MAX;
      keys.last[i] = t + 8 * i < T ? last[t + 8 * i] : -1;
    }
    Softmax softmax;
    begin_softmax(&softmax);
    ring_await(rings.q, q_stage);
    q_stage = next_stage(q_stage, 1);
    const struct Range range = shared_range;
    ring_await(rings.k, stage);
    WGMMA_FENCE;
    multiply_keys(scores, queries, k_tiles + stage.index * TILE_BYTES);
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
      WGMMA_FENCE;
      multiply_keys(scores, queries, k_tiles + stage.index * TILE_BYTES);
      ring_await(rings.v, before);
      WGMMA_FENCE;
      multiply_values(out, weights, v_tiles + before.index * TILE_BYTES, keep);
      keep = 1;
      WGMMA_WAIT_1(128)(scores);
      if (elected) ring_release(rings.k, stage.index);
      mask_block(scores, keys, block * ROWS, range, lane);
      find_references(&softmax, scores, scale_2);
      make_weights(&softmax, scores, scale_2);
      // The phase is long complete. The wait ends a basic block: otherwise the assembler moves the
      // wait for the products, which has no dependence on the softmax, before it.
      ring_await(rings.v, before);
      WGMMA_WAIT_0(HEAD_DIM)(out);
      if (elected) ring_release(rings.v, before.index);
      scale_out(out, &softmax);
      round_weights(weights, scores);
    }
    if (elected) ring_release(rings.q, 0);
    ring_await(rings.v, stage);
    WGMMA_FENCE;
    multiply_values(out, weights, v_tiles + stage.index * TILE_BYTES, keep);
    softmax.total[0] = row_sum(softmax.total[0]);
    softmax.total[1] = row_sum(softmax.total[1]);
    WGMMA_WAIT_0(HEAD_DIM)(out);
    if (elected) ring_release(rings.v, stage.index);
    stage = next_stage(stage, RING);
    store_tile(results, out, &softmax, t, h, scale, lane);
  }
}
