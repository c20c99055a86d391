// attention_matrix: grouped-query attention over ranges of keys, forward, on matrix units.
//
//   y[t, h] = sum_k p_k v[k, g],  p = softmax_k(scale * q[t, h] . k[k, g]),  g = h / (H / G)
//   log_sum_exp[t, h] = log sum_k exp(scale * q[t, h] . k[k, g]),  k in first[t] .. last[t]
// Shapes  q, y [T, H, E]; k, v [Tk, G, E]; first, last [T] i32; log_sum_exp [T, H]; E = HEAD_DIM, a
//         multiple of 16; order: cl/attention/attention_order.cl
// Types   q, k and v bf16; y of -D RESULT_TYPE: f32, bf16 or f16; else f32
// Work    a work-group owns ROWS = SUBGROUPS x SUBGROUP_ROWS queries of one head, a divisor of 128,
//         and loops over blocks of COLUMNS keys from the last one to the first. Keys and values
//         take turns in a ring of SLOTS tiles: while a block's keys are multiplied, its values
//         arrive. Tiles with the most keys have the lowest group numbers.
// Local   ROWS + SLOTS x COLUMNS rows of E elements
// Tiles              COLUMNS keys           E
//        ROWS     |  scores, p    |  *  | values |  added to y [ROWS, E] in registers
// Cost    4 E flops a (query, key) pair and head
// Numerics online softmax (Milakov and Gimelshein, 2018) in f32; p is rounded to bf16 for its
//         product with v. -D SOFT_CAP: scores are capped (soft_cap.clh)
//! clc: build on mma: MMA_SYNC HEAD_DIM=64 SUBGROUPS=4 SUBGROUP_ROWS={16,32} COLUMNS=64 SLOTS=2
//!     RESULT_TYPE=f32
//! clc: build on mma: MMA_SYNC HEAD_DIM=128 SUBGROUPS=4 SUBGROUP_ROWS=32 COLUMNS=64 SLOTS=2
//!     RESULT_TYPE=f32
//! clc: build on mma: MMA_SYNC HEAD_DIM=256 SUBGROUPS=4 SUBGROUP_ROWS=16 COLUMNS=32 SLOTS=2
//!     RESULT_TYPE=f32
//! clc: build on mfma: MFMA HEAD_DIM=64 SUBGROUPS=4 SUBGROUP_ROWS=16 COLUMNS=32 SLOTS=2
//!     RESULT_TYPE=f32
//! clc: build on wmma_gfx11: WMMA_GFX11 HEAD_DIM=64 SUBGROUPS=4 SUBGROUP_ROWS=16 COLUMNS=32 SLOTS=2
//!     RESULT_TYPE=f32
//! clc: build on wmma_gfx12: WMMA_GFX12 HEAD_DIM=64 SUBGROUPS=4 SUBGROUP_ROWS=16 COLUMNS=32 SLOTS=2
//!     RESULT_TYPE=f32
//! clc: build on xmx: XMX HEAD_DIM=64 SUBGROUPS=4 SUBGROUP_ROWS=16 COLUMNS=32 SLOTS=2
//!     RESULT_TYPE=f32 -cl-intel-256-GRF-per-thread
//! clc: budget of attention_matrix on pvc spills=0
//! clc: build MMA_SYNC EMULATED HEAD_DIM=32 SUBGROUPS=2 SUBGROUP_ROWS=16 COLUMNS=32 SLOTS=2
//!     RESULT_TYPE={f32,f16}
//! clc: build on mma: MMA_SYNC HEAD_DIM=256 SUBGROUPS=4 SUBGROUP_ROWS=16 COLUMNS=32 SLOTS=2
//!     RESULT_TYPE=f32 SOFT_CAP=50.0f
#include "attention/attention_matrix.clh"

#if SLOTS == 2
#define WAIT_FOR_SLOT STAGE_WAIT(0)
#elif SLOTS == 3
#define WAIT_FOR_SLOT STAGE_WAIT(1)
#else
#define WAIT_FOR_SLOT STAGE_WAIT(2)
#endif
#define SLOT_BYTES TILE_BYTES(COLUMNS)

// Stages the n-th tile of the ring: keys and values of blocks from the last one to the first.
INLINED void stage_nth(LocalAt ring, HeadRows k, HeadRows v, TileRange range, int n, uint item) {
  const int block = range.end - 1 - n / 2;
  if (block >= range.begin) {
    stage_rows(ring + n % SLOTS * SLOT_BYTES, n % 2 ? v : k, block * COLUMNS, COLUMNS, item);
  }
  STAGE_COMMIT;
}

// The totals of rows that attend to a value that is not finite become NaN.
INLINED void spoil(MatrixUnit unit, float (*totals)[SUM_ROWS], __local const int2* ranges,
                   __local const int* found, int block) {
  UNROLL
  for (uint r = 0; r < ROW_BLOCKS; ++r) {
#pragma unroll
    for (uint i = 0; i < SUM_ROWS; ++i) {
      const int2 range = ranges[r * 16 + sum_row(unit, i)] - block * COLUMNS;
      for (int c = max(range.x, 0); c <= min(range.y, COLUMNS - 1); ++c) {
        if (found[c] == block) totals[r][i] = NAN;
      }
    }
  }
}

SUBGROUP_OF_LANES __attribute__((reqd_work_group_size(ITEMS, 1, 1))) __kernel void
attention_matrix(
    __global STORED(RESULT_TYPE)* y, __global float* log_sum_exp, __global const ushort* q,
    __global const ushort* k, __global const ushort* v, __global const int* first,
    __global const int* last, __global const int* order, int T, int Tk, int H, int G, float scale,
    int keeps_log_sum_exp) {
  MATRIX_UNIT(unit, SUBGROUPS);
  __local uchar tiles[TILE_BYTES(ROWS) + SLOTS * SLOT_BYTES] __attribute__((aligned(1024)));
  __local int2 ranges[ROWS];
  __local int limits[4], found[COLUMNS + 1];
  const uint item = get_local_id(0), row = item / LANES * SUBGROUP_ROWS;
  const int n = (int)get_group_id(0) / H, h = (int)get_group_id(0) % H;
  const int t0 = order[n / (ORDER_ROWS / ROWS)] * ORDER_ROWS + n % (ORDER_ROWS / ROWS) * ROWS;
  if (t0 >= T) return;
  const size_t key_head = (size_t)(h / (H / G)) * HEAD_DIM;
  const HeadRows queries = {q + (size_t)h * HEAD_DIM, T, H * HEAD_DIM};
  const HeadRows keys = {k + key_head, Tk, G * HEAD_DIM}, values = {v + key_head, Tk, G * HEAD_DIM};
  const LocalAt q_tile = local_at(tiles), ring = q_tile + TILE_BYTES(ROWS);
  stage_rows(q_tile, queries, t0, ROWS, item);
  clear_limits(limits, item);
  for (uint i = item; i <= COLUMNS; i += ITEMS) found[i] = -1;
  barrier(CLK_LOCAL_MEM_FENCE);  // the limits are cleared
  for (uint i = item; i < ROWS; i += ITEMS) {
    const int t = min(t0 + (int)i, T - 1);
    note_range(ranges, limits, i, (int2)(first[t], last[t]));
  }
  barrier(CLK_LOCAL_MEM_FENCE);  // the ranges of all rows are noted
  const TileRange range = range_of(limits);
  for (int i = 0; i < SLOTS - 1; ++i) stage_nth(ring, keys, values, range, i, item);

  const float scale_2 = scale * LOG2_E;
  Sums out[ROW_BLOCKS][STEPS];
  float maxima[ROW_BLOCKS][SUM_ROWS], totals[ROW_BLOCKS][SUM_ROWS];
  UNROLL
  for (uint r = 0; r < ROW_BLOCKS; ++r) {
    UNROLL
    for (uint e = 0; e < STEPS; ++e) clear(&out[r][e]);
#pragma unroll
    for (uint i = 0; i < SUM_ROWS; ++i) {
      maxima[r][i] = -INFINITY;
      totals[r][i] = 0.0f;  // of the lane's own keys
    }
  }
  for (int block = range.end - 1; block >= range.begin; --block) {
    const int at = 2 * (range.end - 1 - block);
    const bool masked = is_masked(range, block);
    Sums scores[ROW_BLOCKS][COLUMN_BLOCKS];
    WAIT_FOR_SLOT;
    barrier(CLK_LOCAL_MEM_FENCE);  // the keys have arrived; the slot before is free
    stage_nth(ring, keys, values, range, at + SLOTS - 1, item);
    multiply_widths(unit, scores, q_tile, row, ring + at % SLOTS * SLOT_BYTES);
    cap_scores(scores, scale);
    if (masked) mask(unit, scores, ranges + row, block, -INFINITY);
    online_softmax(unit, scores, out, maxima, totals, scale_2);
    WAIT_FOR_SLOT;
    if (masked) {
      clean_rows(tiles + TILE_BYTES(ROWS) + (at + 1) % SLOTS * SLOT_BYTES, COLUMNS, found, block,
                 item);
    }
    barrier(CLK_LOCAL_MEM_FENCE);  // the values have arrived; the slot before is free
    stage_nth(ring, keys, values, range, at + SLOTS, item);
    if (masked && found[COLUMNS] == block) spoil(unit, totals, ranges + row, found, block);
    add_weighted(unit, out, (const Sums(*)[COLUMN_BLOCKS])scores,
                 ring + (at + 1) % SLOTS * SLOT_BYTES, 0);
  }

  UNROLL
  for (uint r = 0; r < ROW_BLOCKS; ++r) {
#pragma unroll
    for (uint i = 0; i < SUM_ROWS; ++i) {
      const float total = row_sum(unit, totals[r][i]);
      const int t = t0 + (int)(row + r * 16 + sum_row(unit, i));
      const bool is_first = sum_column(unit, 0) < SUM_RUN;  // of the lanes that hold the row
      if (is_first && keeps_log_sum_exp && t < T) {
        log_sum_exp[(size_t)t * H + h] = fma(maxima[r][i], scale, log(total));
      }
      totals[r][i] = 1.0f / total;
    }
  }
  store_sums(unit, y + ((size_t)(t0 + row) * H + h) * HEAD_DIM, (size_t)H * HEAD_DIM,
             T - t0 - (int)row, out, totals);
}
