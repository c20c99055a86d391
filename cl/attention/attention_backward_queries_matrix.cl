// attention_backward_queries_matrix: attention, backward, the gradient of the queries, on matrix
// units, over packed rows (row t attends to keys first[t] .. t).
//
//   p[t, h, k] = exp(scale * q[t, h] . k[k, g] - log_sum_exp[t, h]),  g = h / (H / G)
//   ds[t, h, k] = p * (dy[t, h] . v[k, g] - dot[t, h]),  dot = dy . y
//   dq[t, h] = scale * sum_k ds k[k, g]
// Shapes  q, dy, dq [T, H, E]; k, v [T, G, E]; first [T] i32; stats [H, 2, P]: see
//         attention_backward_begin_matrix.cl; order: attention_order.cl; E = HEAD_DIM
// Types   q, k, v and dy bf16; dq of -D RESULT_TYPE: f32, bf16 or f16; stats f32
// Work    a work-group owns ROWS queries of one head, a divisor of 128, and loops over blocks of
//         COLUMNS keys; the next block is copied while one is multiplied
// Local   2 ROWS + 4 COLUMNS rows of E elements
// Tiles              COLUMNS keys        E
//        ROWS     |  p, dy . v, ds |  *  | keys |  added to dq [ROWS, E] in registers
// Cost    6 E flops a (query, key) pair and head
// Numerics ds is rounded to bf16; sums f32, in a fixed order. -D SOFT_CAP: scores are capped
//         (soft_cap.clh)
//! clc: build on mma: MMA_SYNC HEAD_DIM=64 SUBGROUPS=4 SUBGROUP_ROWS=32 COLUMNS=32 RESULT_TYPE=f32
//! clc: build on mma: MMA_SYNC HEAD_DIM=128 SUBGROUPS=4 SUBGROUP_ROWS={16,32} COLUMNS=32
//!     RESULT_TYPE=f32
//! clc: build on mma: MMA_SYNC HEAD_DIM=256 SUBGROUPS=4 SUBGROUP_ROWS=16 COLUMNS=16
//!     RESULT_TYPE={bf16,f16}
//! clc: build on mfma: MFMA HEAD_DIM=64 SUBGROUPS=4 SUBGROUP_ROWS=16 COLUMNS=32 RESULT_TYPE=f32
//! clc: build on wmma_gfx11: WMMA_GFX11 HEAD_DIM=64 SUBGROUPS=4 SUBGROUP_ROWS=16 COLUMNS=32
//!     RESULT_TYPE=f32
//! clc: build on wmma_gfx12: WMMA_GFX12 HEAD_DIM=64 SUBGROUPS=4 SUBGROUP_ROWS=16 COLUMNS=32
//!     RESULT_TYPE=f32
//! clc: build on xmx: XMX HEAD_DIM=64 SUBGROUPS=4 SUBGROUP_ROWS=16 COLUMNS=16 RESULT_TYPE=f32
//!     -cl-intel-256-GRF-per-thread
//! clc: budget of attention_backward_queries_matrix on pvc spills=0
//! clc: build MMA_SYNC EMULATED HEAD_DIM=32 SUBGROUPS=2 SUBGROUP_ROWS=16 COLUMNS=32
//!     RESULT_TYPE={f32,f16}
// Queries are the rows of a tile.
#define QUERY_STATS(name) float (*name)[SUM_ROWS]
#define STAT_OF(stats, unit, r, i, c, j) stats[r][i]
#include "attention/attention_backward_matrix.clh"

INLINED void stage_block(LocalAt stages, HeadRows k, HeadRows v, TileRange range, int block,
                         uint item) {
  if (block < range.end) {
    const LocalAt to = stages + (block - range.begin) % 2 * STAGE_BYTES;
    stage_rows(to, k, block * COLUMNS, COLUMNS, item);
    stage_rows(to + OPERAND_BYTES, v, block * COLUMNS, COLUMNS, item);
  }
  STAGE_COMMIT;
}

SUBGROUP_OF_LANES __attribute__((reqd_work_group_size(ITEMS, 1, 1))) __kernel void
attention_backward_queries_matrix(
    __global STORED(RESULT_TYPE)* dq, __global const ushort* q, __global const ushort* k,
    __global const ushort* v, __global const ushort* dy, __global const float* stats,
    __global const int* first, __global const int* order, int T, int H, int G, int P,
    float scale) {
  MATRIX_UNIT(unit, SUBGROUPS);
  __local uchar tiles[2 * TILE_BYTES(ROWS) + 2 * STAGE_BYTES] __attribute__((aligned(1024)));
  __local int2 ranges[ROWS];
  __local int limits[4], found[COLUMNS + 1];
  const uint item = get_local_id(0), row = item / LANES * SUBGROUP_ROWS;
  const int n = (int)get_group_id(0) / H, h = (int)get_group_id(0) % H;
  const int t0 = order[n / (ORDER_ROWS / ROWS)] * ORDER_ROWS + n % (ORDER_ROWS / ROWS) * ROWS;
  if (t0 >= T) return;
  const size_t head = (size_t)h * HEAD_DIM, key_head = (size_t)(h / (H / G)) * HEAD_DIM;
  const HeadRows queries = {q + head, T, H * HEAD_DIM}, gradients = {dy + head, T, H * HEAD_DIM};
  const HeadRows keys = {k + key_head, T, G * HEAD_DIM}, values = {v + key_head, T, G * HEAD_DIM};
  const LocalAt q_tile = local_at(tiles), dy_tile = q_tile + TILE_BYTES(ROWS),
                stages = dy_tile + TILE_BYTES(ROWS);
  stage_rows(q_tile, queries, t0, ROWS, item);
  stage_rows(dy_tile, gradients, t0, ROWS, item);
  clear_limits(limits, item);
  for (uint i = item; i <= COLUMNS; i += ITEMS) found[i] = -1;
  barrier(CLK_LOCAL_MEM_FENCE);  // the limits are cleared
  for (uint i = item; i < ROWS; i += ITEMS) {
    const int t = min(t0 + (int)i, T - 1);
    note_range(ranges, limits, i, (int2)(first[t], t));
  }
  barrier(CLK_LOCAL_MEM_FENCE);  // the ranges of all rows are noted
  const TileRange range = range_of(limits);
  stage_block(stages, keys, values, range, range.begin, item);

  float log_sums[ROW_BLOCKS][SUM_ROWS], dots[ROW_BLOCKS][SUM_ROWS];
  Sums sums[ROW_BLOCKS][STEPS];
  UNROLL
  for (uint r = 0; r < ROW_BLOCKS; ++r) {
    UNROLL
    for (uint e = 0; e < STEPS; ++e) clear(&sums[r][e]);
#pragma unroll
    for (uint i = 0; i < SUM_ROWS; ++i) {
      __global const float* of_row =
          stats + (size_t)h * 2 * P + t0 + row + r * 16 + sum_row(unit, i);
      log_sums[r][i] = of_row[0];
      dots[r][i] = of_row[P];
    }
  }
  for (int block = range.begin; block < range.end; ++block) {
    const uint at = (block - range.begin) % 2 * STAGE_BYTES;
    const bool masked = is_masked(range, block);
    Sums p[ROW_BLOCKS][COLUMN_BLOCKS], ds[ROW_BLOCKS][COLUMN_BLOCKS];
    STAGE_WAIT(0);
    if (masked) clean_rows(tiles + 2 * TILE_BYTES(ROWS) + at, COLUMNS, found, block, item);
    barrier(CLK_LOCAL_MEM_FENCE);  // the block has arrived; the stage before is free
    stage_block(stages, keys, values, range, block + 1, item);
    multiply_widths(unit, p, q_tile, row, stages + at);
    cap_scores(p, scale);
    KEEP_SCORES(scores, p);
    weigh(unit, p, log_sums, scale * LOG2_E);
    multiply_widths(unit, ds, dy_tile, row, stages + at + OPERAND_BYTES);
    score_gradients(unit, ds, p, dots);
    MULTIPLY_BY_SLOPES(ds, scores, scale);
    if (masked) mask(unit, ds, ranges + row, block, 0.0f);
    add_weighted(unit, sums, (const Sums(*)[COLUMN_BLOCKS])ds, stages + at, 0);
  }

  UNROLL
  for (uint r = 0; r < ROW_BLOCKS; ++r) {
#pragma unroll
    for (uint i = 0; i < SUM_ROWS; ++i) dots[r][i] = scale;
  }
  store_sums(unit, dq + (size_t)(t0 + row) * H * HEAD_DIM + head, (size_t)H * HEAD_DIM,
             T - t0 - (int)row, sums, dots);
}
