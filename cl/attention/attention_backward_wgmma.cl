// attention_backward_wgmma: attention, backward, with Hopper's wgmma, over packed rows (row t
// attends to keys first[t] .. t; first is non-decreasing).
//
//   p[t, h, k] = exp(scale * q[t, h] . k[k, g] - log_sum_exp[t, h]),  g = h / (H / G)
//   ds[t, h, k] = p * (dy[t, h] . v[k, g] - dot[t, h]),  dot = dy . y
//   dv[k, h] = sum_t p dy[t, h]    dk[k, h] = scale * sum_t ds q[t, h]    of one query head
//   dq[t, h] = scale * sum_k ds k[k, g]
// Shapes  q, dy [T, H, E], k and v [T, G, E] by their tensor maps (tensor_map.cl) in the order
//         q, k, v, dy, in boxes of STEP rows (q, dy) or 128 (k, v); dq, dk, dv [T, H, E]; E =
//         HEAD_DIM, 64/128. P = T rounded up to 128. stats [H, P / STEP, 3, STEP], steps [P / 128]
//         i32 and plan, which begins with counters: see attention_backward_begin_wgmma.cl; sums
//         [H * P * E] f32. order: cl/attention/attention_order.cl.
// Types   q, k, v and dy bf16, read through their maps only; dq, dk, dv of -D RESULT_TYPE:
//         f32, bf16 or f16
// Work    a persistent grid of work-groups of three warp groups. A task is 128 keys of one query
//         head, a step is STEP of its queries. One thread issues the copies, two warp groups own 64
//         keys each. Scores and ds are computed transposed, so p^T and ds^T are left operands
//         directly in registers; ds^T is also written to local memory, for dq. Two dQ reducer
//         warps, with one thread each, add dq's parts to `sums` by bulk reductions on alternating
//         steps: one waits for its turn while the other's part is in flight.
// Order   tasks are taken from a counter, in the given order. A part of dq is added after those of
//         all earlier tasks: counters[h, step] is the number of parts added. A wait is thus for a
//         running task, and the sum is the same on every run. The first part is stored, the last
//         one is added in registers. A wait times out after some seconds, and the step's rows of dq
//         are then NaN.
// Local   about 211 KB
// Cost    10 E flops a (query, key) pair and head
// Numerics p from the forward's log_sum_exp; p and ds are rounded to bf16; sums f32
//! clc: build on wgmma: HEAD_DIM={64,128} RESULT_TYPE={f32,bf16,f16}
#include "attention/attention_backward_wgmma.clh"
#include "hopper/hopper.clh"
#include "hopper/hopper_lanes.clh"
#include "hopper/hopper_pipeline.clh"
#include "hopper/hopper_products.clh"
#include "hopper/hopper_rows.clh"
#include "attention/attention_backward_wgmma_smem.clh"
#include "attention/attention_backward_wgmma_scores.clh"
#include "attention/attention_backward_wgmma_copies.clh"

// sums = 64 rows of a warp group, from `own` on, times all rows of a step, reduced over the width.
INLINED void multiply_over_width(float* sums, uint own, uint step) {
  UNROLL for (int e = 0; e < HEAD_DIM / 16; ++e) {
    WGMMA_SS(STEP)(sums, operand_from(own, e / 4 * KEY_BOX / 16 + e % 4 * NEXT_STEPS),
                   operand_from(step, e / 4 * STEP_BOX / 16 + e % 4 * NEXT_STEPS), e != 0, "0");
  }
  WGMMA_COMMIT;
}
// out (+)= pairs in registers, 64 x STEP, times a step's rows.
INLINED void multiply_over_step(float* out, uint (*pairs)[4], uint step, int keep) {
  UNROLL for (int e = 0; e < STEP / 16; ++e) {
    WGMMA_RS(HEAD_DIM)(out, pairs[e],
                       transposed_boxes_from(step, STEP, e * NEXT_TRANSPOSED_STEPS), keep || e,
                       "1");
  }
  WGMMA_COMMIT;
}
// sums = ds k: 64 rows of the step, 64 columns.
INLINED void multiply_over_keys(float* sums, uint ds_box, uint k_box) {
  UNROLL for (int e = 0; e < KEYS / 16; ++e) {
    WGMMA_SS_MN(64)(sums, transposed_boxes_from(ds_box, KEYS, e * NEXT_TRANSPOSED_STEPS),
                    transposed_boxes_from(k_box, KEYS, e * NEXT_TRANSPOSED_STEPS), e != 0);
  }
  WGMMA_COMMIT;
}

__attribute__((reqd_work_group_size(384, 1, 1))) __kernel void attention_backward_wgmma(
    __global RESULT* dq, __global RESULT* dk, __global RESULT* dv, __global const uchar* maps,
    __global const float* stats, __global const int* steps, __global int* plan,
    __global float* sums, __global const int* order, int T, int H, int G, int P, float scale) {
  HOPPER_KERNEL;
  __local uchar tiles[2 * KEY_TILE + (RING + 2) * STEP_TILE + 2 * DS_TILE + DQ_BYTES]
      __attribute__((aligned(1024)));
  __local float ring_stats[RING][3 * STEP] __attribute__((aligned(16)));
  __local int2 info[RING];  // the step, and its word of the plan
  __local struct Task tasks[2];
  __local ulong barriers[MBARRIERS];
  const int item = get_local_id(0), lane = item % 32;
  struct Smem at = smem_layout(shared_address(tiles), shared_address(barriers));
  at.stats = shared_address(ring_stats);
  at.info = shared_address(info);
  at.tasks = shared_address(tasks);
  if (item == 0) {
    init_mbarriers(at);
    for (int i = 0; i < 4; ++i) tensormap_acquire(maps + i * MAP_BYTES);
  }
  barrier(CLK_LOCAL_MEM_FENCE);  // the mbarriers are initialised
  if (item < 128) {
    SETMAXNREG_DEC(24);
    if (item == 0) {
      copy_tasks(at, maps, stats, steps, plan + COUNTERS(H, P), plan + COUNTERS(H, P) - 1, order, H,
                 G, P);
    } else if (item == 32 || item == 64) {
      reduce_dq(at, plan + COUNTERS(H, P), plan, sums, order[3 * (P / KEYS)], P, item / 32 - 1);
    }
    return;
  }
  SETMAXNREG_INC(240);
  const float scale_2 = scale * LOG2_E;
  const bool elected = item % 128 == 0;
  // The address of a lane's rows of ds^T: row lane % 16 of the warp, the 16-byte chunk lane / 16.
  const uint ds_lane = at.ds + (item / 32 * 16 - 64 + (lane & 15)) * 128 +
                       (((lane >> 4) ^ (lane & 7)) << 4);
  float s[STEP / 2], dp[STEP / 2], dk_sums[HEAD_DIM / 2], dv_sums[HEAD_DIM / 2], dq_sums[32];
  uint p[STEP / 16][4], ds[STEP / 16][4];
  Stage stage = {0, 0};
  uint step = 0, loaded_phase = 0;
  for (uint turn = 0;; turn ^= 1) {
    int part = warp_first(item / 128 - 1);
    mbarrier_wait(at.k_ring.full, turn);
    if (shared_int(at.tasks + turn * TASK_BYTES) < 0) return;
    const int count = shared_int(at.tasks + turn * TASK_BYTES + 4);
    ring_await(at.q_ring, stage);
    WGMMA_FENCE;
    multiply_over_width(s, at.k + part * 8192, at.q + stage.index * STEP_TILE);
    mbarrier_wait(at.v_ring.full, turn);
    WGMMA_WAIT_0(STEP)(s);
    for (int i = 0; i < count; ++i, ++step) {
      part = warp_first(item / 128 - 1);  // recomputed, or its operands would occupy registers
      const uint ring_stage = step & 1, ring_phase = step >> 1 & 1;  // of the two-stage rings
      const uint dy = at.dy + ring_stage * STEP_TILE, ds_tile = at.ds + ring_stage * DS_TILE;
      const uint rows = at.stats + stage.index * STATS_BYTES + lane % 4 * 8;
      const uint before = stage.index ? stage.index - 1 : RING - 1;
      const Stage next = next_stage(stage, RING);
      mbarrier_wait(at.dy_ring.full + 8 * ring_stage, ring_phase);
      WGMMA_FENCE;
      multiply_over_width(dp, at.v + part * 8192, dy);
      weigh(s, rows, scale_2);
      const int word = shared_int(at.info + 8 * stage.index + 4);
      if (word & IS_MASKED) {
        const int key = shared_int(at.tasks + turn * TASK_BYTES) * KEYS + part * 64 +
                        item % 128 / 32 * 16 + lane / 4;
        mask(s, rows, key, shared_int(at.info + 8 * stage.index) * STEP + lane % 4 * 2);
      }
      UNROLL for (int j = 0; j < STEP / 4; ++j) {
        p[j / 4][j % 4] = bf16_pair(s[2 * j], s[2 * j + 1]);
      }
      WGMMA_WAIT_0(STEP)(dp);
      if (lane == 0 && i > 0) ring_release(at.q_ring, before);
      // Every warp of the group has issued the product, which is complete.
      if (elected && i == count - 1) ring_release(at.v_ring, 0);
      WGMMA_FENCE;
      multiply_over_step(dv_sums, p, dy, i);
      score_gradients(ds, p, dp, rows);
      WGMMA_WAIT_0(HEAD_DIM)(dv_sums);  // overlapped score_gradients; must not stay in flight
      if (elected) ring_release(at.dy_ring, ring_stage);
      store_ds(ds_lane + ring_stage * DS_TILE, ds);
      warp_stored(at.ds_full + 8 * ring_stage, lane);
      // The next step's scores. After the last step the product is unused: a branch here would
      // serialise all products.
      if (i + 1 < count) ring_await(at.q_ring, next);
      WGMMA_FENCE;
      multiply_over_width(s, at.k + part * 8192, at.q + next.index * STEP_TILE);
      mbarrier_wait(at.ds_full + 8 * ring_stage, ring_phase);
      WGMMA_FENCE;
      multiply_over_keys(dq_sums, ds_tile + (HEAD_DIM == 64 ? part * KEY_BOX : 0),
                         at.k + (HEAD_DIM == 64 ? 0 : part * KEY_BOX));
      multiply_over_step(dk_sums, ds, at.q + stage.index * STEP_TILE, i);
      WGMMA_WAIT_1(STEP)(s);
      WGMMA_WAIT_1(64)(dq_sums);
      if (elected && i == count - 1) ring_release(at.k_ring, 0);
      mbarrier_wait(at.dq_empty, step & 1 ^ 1);
      const uint dq_lane = at.dq + part * 16384 + item % 128 * 16;
      if (word & IS_LAST) {
        if (word >= FLAGS) {
          mbarrier_wait(at.dq_loaded, loaded_phase);
          loaded_phase ^= 1;
          add_earlier(dq_sums, dq_lane);
        }
        warp_stored(at.dq_full + 8 * ring_stage, lane);
        const int t = shared_int(at.info + 8 * stage.index) * STEP +
                      (HEAD_DIM == 64 ? part * 64 : 0) + item % 128 / 32 * 16 + lane / 4;
        const int h = shared_int(at.tasks + turn * TASK_BYTES + 8);
        store_rows(dq + ((size_t)t * H + h) * HEAD_DIM + (HEAD_DIM == 64 ? 0 : part * 64),
                   H * HEAD_DIM, T - t, dq_sums, scale, scale, lane);
      } else {
        store_part(dq_lane, dq_sums);
        warp_stored(at.dq_full + 8 * ring_stage, lane);
      }
      WGMMA_WAIT_0(HEAD_DIM)(dk_sums);  // it overlapped the stores of dq
      stage = next;
    }
    WGMMA_WAIT_0(HEAD_DIM)(dk_sums);
    WGMMA_WAIT_0(HEAD_DIM)(dv_sums);
    warp_sync();
    if (lane == 0) ring_release(at.q_ring, stage.index ? stage.index - 1 : RING - 1);
    const int key = shared_int(at.tasks + turn * TASK_BYTES) * KEYS + part * 64 +
                    item % 128 / 32 * 16 + lane / 4;
    const int h = shared_int(at.tasks + turn * TASK_BYTES + 8);
    const size_t to = ((size_t)key * H + h) * HEAD_DIM;
    UNROLL for (int b = 0; b < BOXES; ++b) {
      store_rows(dv + to + 64 * b, H * HEAD_DIM, T - key, dv_sums + 32 * b, 1.0f, 1.0f, lane);
      store_rows(dk + to + 64 * b, H * HEAD_DIM, T - key, dk_sums + 32 * b, scale, scale, lane);
    }
  }
}
