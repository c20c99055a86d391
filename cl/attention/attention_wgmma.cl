// attention_wgmma: grouped-query attention over ranges of keys, forward, with Hopper's wgmma.
//
//   y[t, h] = sum_k p_k v[k, g],  p = softmax_k(scale * q[t, h] . k[k, g]),  g = h / (H / G)
//   log_sum_exp[t, h] = log sum_k exp(scale * q[t, h] . k[k, g]),  k in first[t] .. last[t]
// Shapes  q [T, H, E], k and v [Tk, G, E] by their tensor maps (tensor_map.cl) in this order, in
//         boxes of 128 rows; y [T, H, E]; first, last [T] i32; log_sum_exp [T, H]; E = HEAD_DIM =
//         128
//         order: cl/attention/attention_order.cl
// Types   q, k and v bf16, read through their maps only; y f32 or bf16 (-D RESULT_BF16); else f32
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
//! clc: build on wgmma: HEAD_DIM=128
//! clc: build on wgmma: HEAD_DIM=128 RESULT_BF16
#include "hopper/hopper.clh"
#include "hopper/hopper_lanes.clh"
#include "hopper/hopper_products.clh"
#include "hopper/hopper_rows.clh"
#include "attention/attention_wgmma.clh"

#define QUERIES_AT q_tile
__attribute__((reqd_work_group_size(384, 1, 1))) __kernel void attention_wgmma(
    __global RESULT* y, __global float* log_sum_exp, __global const uchar* maps,
    __global const int* first, __global const int* last, __global const int* order, int T, int H,
    int G, float scale, int keeps_log_sum_exp) {
  HOPPER_KERNEL;
  __local uchar tiles[(1 + 2 * RING) * TILE_BYTES] __attribute__((aligned(1024)));
  __local ulong barriers[2 + 4 * RING];
  __local struct Range shared_range;
  MBARRIER_ADDRESSES(1)
  const uint q_tile = shared_address(tiles), k_tiles = q_tile + TILE_BYTES,
             v_tiles = k_tiles + RING * TILE_BYTES;
  const int item = get_local_id(0), lane = item % 32;
  INIT_WORK_GROUP(1)
  uint stage = 0, phase = 0, q_phase = 0;
  if (item < 128) {
    SETMAXNREG_DEC(40);
    if (item >= 32) return;
    EACH_TILE {
      TILE_COORDS
      const struct Range range = range_of(first, last, t0, T, lane);
      if (lane == 0) {
        mbarrier_wait(q_empty, q_phase ^ 1);
        shared_range = range;
        copy_tile(q_tile, maps, h, t0, q_full);
        COPY_BLOCKS
      }
      q_phase ^= 1;
      warp_sync();
    }
    return;
  }
  SETMAXNREG_INC(232);
  CONSUMER_STATE
  EACH_TILE {
    TILE_COORDS
    const int t_0 = t0 + row, t_1 = t_0 + 8;
    const int first_0 = t_0 < T ? first[t_0] : INT_MAX, first_1 = t_1 < T ? first[t_1] : INT_MAX;
    const int last_0 = t_0 < T ? last[t_0] : -1, last_1 = t_1 < T ? last[t_1] : -1;
    float max_0 = -INFINITY, max_1 = -INFINITY, total_0 = 0.0f, total_1 = 0.0f;
    mbarrier_wait(q_full, q_phase);
    q_phase ^= 1;
    const struct Range range = shared_range;
    int key = (range.end - 1) * ROWS;
    mbarrier_wait(k_full + 8 * stage, phase);
    WGMMA_FENCE;
    MULTIPLY_KEYS
    WGMMA_WAIT_0(128)(scores);
    if (elected) mbarrier_arrive(k_empty + 8 * stage);
    {
      MASK_BLOCK
      FIND_REFERENCES
      MAKE_WEIGHTS(EXP2)
    }
    ROUND_WEIGHTS
    int keep = 0;
    for (int block = range.end - 2; block >= range.begin; --block) {
      const uint before = stage, before_phase = phase;
      NEXT_STAGE(RING)
      key = block * ROWS;
      mbarrier_wait(k_full + 8 * stage, phase);
      WGMMA_FENCE;
      MULTIPLY_KEYS
      mbarrier_wait(v_full + 8 * before, before_phase);
      WGMMA_FENCE;
      MULTIPLY_VALUES(before, keep)
      keep = 1;
      WGMMA_WAIT_1(128)(scores);
      if (elected) mbarrier_arrive(k_empty + 8 * stage);
      MASK_BLOCK
      FIND_REFERENCES
      MAKE_WEIGHTS(EXP2)
      // The phase is long complete. The wait ends a basic block: otherwise the assembler moves the
      // wait for the products, which has no dependence on the softmax, before it.
      mbarrier_wait(v_full + 8 * before, before_phase);
      WGMMA_WAIT_0(HEAD_DIM)(out);
      if (elected) mbarrier_arrive(v_empty + 8 * before);
      SCALE_OUT
      ROUND_WEIGHTS
    }
    if (elected) mbarrier_arrive(q_empty);
    mbarrier_wait(v_full + 8 * stage, phase);
    WGMMA_FENCE;
    MULTIPLY_VALUES(stage, keep)
    total_0 = row_sum(total_0);
    total_1 = row_sum(total_1);
    WGMMA_WAIT_0(HEAD_DIM)(out);
    if (elected) mbarrier_arrive(v_empty + 8 * stage);
    NEXT_STAGE(RING)
    STORE_TILE
  }
}
