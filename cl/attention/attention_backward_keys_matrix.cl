// attention_backward_keys_matrix: attention, backward, the gradients of keys and values, on matrix
// units, over packed rows (row t attends to keys first[t] .. t).
//
//   p[t, h, k] = exp(scale * q[t, h] . k[k, g] - log_sum_exp[t, h]),  g = h / (H / G)
//   ds[t, h, k] = p * (dy[t, h] . v[k, g] - dot[t, h]),  dot = dy . y
//   dv[k, h] = sum_t p dy[t, h]    dk[k, h] = scale * sum_t ds q[t, h]    of one query head
// Shapes  q, dy, dk, dv [T, H, E]; k, v [T, G, E]; stats [H, 2, P] and past [T] i32: see
//         attention_backward_begin_matrix.cl; order: attention_order.cl; E = HEAD_DIM
// Types   q, k, v and dy bf16; dk and dv of -D RESULT_TYPE: f32, bf16 or f16; stats f32
// Work    a work-group owns ROWS keys, a divisor of 128, for one query head and 1 / PARTS of the
//         elements of dk and dv, and loops over blocks of COLUMNS queries; the next block is copied
//         while one is multiplied. Scores are computed transposed, so p and ds are left operands as
//         they are.
// Local   2 ROWS + 4 COLUMNS rows of E elements
// Tiles              COLUMNS queries      E / PARTS
//        ROWS     |  p, dy . v, ds |  *  | dy, q |  added to dv, dk [ROWS, E / PARTS] in registers
// Cost    8 E flops a (query, key) pair and head, if PARTS is 1
// Numerics p and ds are rounded to bf16; sums f32, in a fixed order. -D SOFT_CAP: scores are capped
//         (soft_cap.clh)
//! clc: build on mma: MMA_SYNC HEAD_DIM=64 SUBGROUPS=4 SUBGROUP_ROWS=32 COLUMNS=32 PARTS=1
//!     RESULT_TYPE=f32
//! clc: build on mma: MMA_SYNC HEAD_DIM=128 SUBGROUPS=4 SUBGROUP_ROWS=16 COLUMNS={32,64} PARTS=1
//!     RESULT_TYPE=f32
//! clc: build on mma: MMA_SYNC HEAD_DIM=256 SUBGROUPS=4 SUBGROUP_ROWS=16 COLUMNS=16 PARTS=2
//!     RESULT_TYPE=f32
//! clc: build on mfma: MFMA HEAD_DIM=64 SUBGROUPS=4 SUBGROUP_ROWS=16 COLUMNS=32 PARTS=1
//!     RESULT_TYPE=f32
//! clc: build on wmma_gfx11: WMMA_GFX11 HEAD_DIM=64 SUBGROUPS=4 SUBGROUP_ROWS=16 COLUMNS=32 PARTS=1
//!     RESULT_TYPE=f32
//! clc: build on wmma_gfx12: WMMA_GFX12 HEAD_DIM=64 SUBGROUPS=4 SUBGROUP_ROWS=16 COLUMNS=32 PARTS=1
//!     RESULT_TYPE=f32
//! clc: build on xmx: XMX HEAD_DIM=64 SUBGROUPS=4 SUBGROUP_ROWS=16 COLUMNS=16 PARTS=1
//!     RESULT_TYPE=f32 -cl-intel-256-GRF-per-thread
//! clc: budget of attention_backward_keys_matrix on pvc spills=0
//! clc: build MMA_SYNC EMULATED HEAD_DIM=32 SUBGROUPS=2 SUBGROUP_ROWS=16 COLUMNS=32 PARTS=2
//!     RESULT_TYPE={f32,f16}
#define OUT_STEPS (HEAD_DIM / 16 / PARTS)
// Queries are the columns of a block.
#define QUERY_STATS(name) __local const float* name
#define STAT_OF(stats, unit, r, i, c, j) stats[c * 16 + sum_column(unit, j)]
#include "attention/attention_backward_matrix.clh"

// The log_sum_exp and dots of a block's queries, after its operands.
#define STATS_BYTES (2 * COLUMNS * 4)

// Before masking, in blocks whose operands were cleaned: weights of queries whose dy or y is not
// finite become NaN.
INLINED void spoil(MatrixUnit unit, Sums (*p)[COLUMN_BLOCKS], __local const float* row_dots) {
  UNROLL
  for (uint c = 0; c < COLUMN_BLOCKS; ++c) {
#pragma unroll
    for (uint j = 0; j < SUM_COLUMNS; ++j) {
      const float dot = row_dots[c * 16 + sum_column(unit, j)];
      UNROLL
      for (uint r = 0; r < ROW_BLOCKS; ++r) {
#pragma unroll
        for (uint i = 0; i < SUM_ROWS; ++i) p[r][c].v[i][j] += dot - dot;
      }
    }
  }
}

INLINED void stage_block(LocalAt stages, LocalAt stats_at, HeadRows q, HeadRows dy,
                         __global const float* stats, int P, TileRange range, int block,
                         uint item) {
  if (block < range.end) {
    const uint parity = (block - range.begin) % 2;
    const LocalAt to = stages + parity * STAGE_BYTES;
    stage_rows(to, q, block * COLUMNS, COLUMNS, item);
    stage_rows(to + OPERAND_BYTES, dy, block * COLUMNS, COLUMNS, item);
    for (uint i = item; i < STATS_BYTES / 16; i += ITEMS) {
      const uint which = i / (COLUMNS / 4), chunk = i % (COLUMNS / 4);
      stage_chunk(stats_at + parity * STATS_BYTES + i * 16,
                  (__global const ushort*)(stats + which * P + block * COLUMNS + chunk * 4), true);
    }
  }
  STAGE_COMMIT;
}

SUBGROUP_OF_LANES __attribute__((reqd_work_group_size(ITEMS, 1, 1))) __kernel void
attention_backward_keys_matrix(
    __global STORED(RESULT_TYPE)* dk, __global STORED(RESULT_TYPE)* dv, __global const ushort* q,
    __global const ushort* k, __global const ushort* v, __global const ushort* dy,
    __global const float* stats, __global const int* past, __global const int* order, int T, int H,
    int G, int P, float scale) {
  MATRIX_UNIT(unit, SUBGROUPS);
  __local uchar tiles[2 * TILE_BYTES(ROWS) + 2 * STAGE_BYTES] __attribute__((aligned(1024)));
  __local float ring_stats[2][2 * COLUMNS] __attribute__((aligned(16)));
  __local int2 ranges[ROWS];
  __local int limits[4], found[COLUMNS + 1];
  const uint item = get_local_id(0), row = item / LANES * SUBGROUP_ROWS;
  const int part = (int)get_group_id(0) % PARTS, tile = (int)get_group_id(0) / PARTS;
  const int n = tile / H, h = tile % H, blocks = (T + ORDER_ROWS - 1) / ORDER_ROWS;
  const int k0 =
      order[blocks + n / (ORDER_ROWS / ROWS)] * ORDER_ROWS + n % (ORDER_ROWS / ROWS) * ROWS;
  if (k0 >= T) return;
  const size_t head = (size_t)h * HEAD_DIM, key_head = (size_t)(h / (H / G)) * HEAD_DIM;
  const HeadRows queries = {q + head, T, H * HEAD_DIM}, gradients = {dy + head, T, H * HEAD_DIM};
  const HeadRows keys = {k + key_head, T, G * HEAD_DIM}, values = {v + key_head, T, G * HEAD_DIM};
  __global const float* const head_stats = stats + (size_t)h * 2 * P;
  const LocalAt k_tile = local_at(tiles), v_tile = k_tile + TILE_BYTES(ROWS),
                stages = v_tile + TILE_BYTES(ROWS), stats_at = local_at(ring_stats);
  stage_rows(k_tile, keys, k0, ROWS, item);
  stage_rows(v_tile, values, k0, ROWS, item);
  clear_limits(limits, item);
  for (uint i = item; i <= COLUMNS; i += ITEMS) found[i] = -1;
  barrier(CLK_LOCAL_MEM_FENCE);  // the limits are cleared
  for (uint i = item; i < ROWS; i += ITEMS) {
    const int key = min(k0 + (int)i, T - 1);
    note_range(ranges, limits, i, (int2)(key, past[key] - 1));
  }
  barrier(CLK_LOCAL_MEM_FENCE);  // the ranges of all rows are noted
  const TileRange range = range_of(limits);
  stage_block(stages, stats_at, queries, gradients, head_stats, P, range, range.begin, item);

  Sums dk_sums[ROW_BLOCKS][OUT_STEPS], dv_sums[ROW_BLOCKS][OUT_STEPS];
  UNROLL
  for (uint i = 0; i < ROW_BLOCKS * OUT_STEPS; ++i) {
    clear(&dk_sums[i / OUT_STEPS][i % OUT_STEPS]);
    clear(&dv_sums[i / OUT_STEPS][i % OUT_STEPS]);
  }
  const uint from = part * (HEAD_DIM / PARTS);
  for (int block = range.begin; block < range.end; ++block) {
    const uint parity = (block - range.begin) % 2, at = parity * STAGE_BYTES;
    const bool masked = is_masked(range, block);
    Sums p[ROW_BLOCKS][COLUMN_BLOCKS], ds[ROW_BLOCKS][COLUMN_BLOCKS];
    STAGE_WAIT(0);
    if (masked) {
      __local uchar* stage = tiles + 2 * TILE_BYTES(ROWS) + at;
      clean_rows(stage, COLUMNS, found, block, item);
      clean_rows(stage + OPERAND_BYTES, COLUMNS, found, block, item);
    }
    barrier(CLK_LOCAL_MEM_FENCE);  // the block has arrived; the stage before is free
    stage_block(stages, stats_at, queries, gradients, head_stats, P, range, block + 1, item);
    multiply_widths(unit, p, k_tile, row, stages + at);
    cap_scores(p, scale);
    KEEP_SCORES(scores, p);
    weigh(unit, p, ring_stats[parity], scale * LOG2_E);
    multiply_widths(unit, ds, v_tile, row, stages + at + OPERAND_BYTES);
    if (masked) {
      spoil(unit, p, ring_stats[parity] + COLUMNS);
      mask(unit, p, ranges + row, block, 0.0f);
    }
    score_gradients(unit, ds, p, ring_stats[parity] + COLUMNS);
    MULTIPLY_BY_SLOPES(ds, scores, scale);
    if (masked) mask(unit, ds, ranges + row, block, 0.0f);
    add_weighted(unit, dv_sums, (const Sums(*)[COLUMN_BLOCKS])p, stages + at + OPERAND_BYTES, from);
    add_weighted(unit, dk_sums, (const Sums(*)[COLUMN_BLOCKS])ds, stages + at, from);
  }

  float ones[ROW_BLOCKS][SUM_ROWS], scales[ROW_BLOCKS][SUM_ROWS];
  UNROLL
  for (uint r = 0; r < ROW_BLOCKS; ++r) {
#pragma unroll
    for (uint i = 0; i < SUM_ROWS; ++i) {
      ones[r][i] = 1.0f;
      scales[r][i] = scale;
    }
  }
  const size_t at = (size_t)(k0 + row) * H * HEAD_DIM + head + from;
  const size_t stride = (size_t)H * HEAD_DIM;
  store_sums(unit, dk + at, stride, T - k0 - (int)row, dk_sums, scales);
  store_sums(unit, dv + at, stride, T - k0 - (int)row, dv_sums, ones);
}
