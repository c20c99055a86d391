// attention for rows that each attend to their own keys, as in decoding several sequences, on
// matrix units: the query heads that share a key head are the rows of one tile.
//   y[t, h] = sum_k p_k v[k, g],  p = softmax_k(scale * q[t, h] . k[k, g]),  g = h / (H / G)
//   log_sum_exp[t, h] = log sum_k exp(scale * q[t, h] . k[k, g]),  k in first[t] .. last[t]
//
// Shapes  q, y [T, H, E]; k, v [Tk, G, E]; first, last [T] i32; log_sum_exp [T, H]. With -D SPLIT
//         parts [T, H, splits, E + 2]: unnormalised sums of v, the maximum of their products, their
//         total; counters [T, H / heads] u32, which are zero before and after a launch
// Types   q of -D X_TYPE, y of RESULT_TYPE: f32, bf16 or f16; k and v of KEY_TYPE: bf16 or f16; all
//         else f32. -D HEAD_DIM=E, a multiple of 16; rows of k and v are aligned to 16 bytes
// Pages   -D PAGE, a multiple of 16: k and v are a cache of pages (paged_keys.clh)
// Work    a work-group of SUBGROUPS sub-groups owns a row, `heads` <= 16 neighbouring heads of one
//         key head, and a split of the row's keys: group (t splits + split, h / heads). Its
//         sub-groups take blocks of 16 keys in turn, which begin at multiples of 16. Each copies
//         its own keys and values, STAGES - 1 blocks ahead, and has its own maxima and sums, which
//         the work-group adds at the end. Without -D SPLIT, splits is 1. With -D SPLIT=KEYS, a row
//         has as many splits, up to `splits` <= 32, as have KEYS keys each; other groups have no
//         work. The group of a row that ends last adds the parts of all
// Local   queries [16, E]; SUBGROUPS x STAGES x 32 rows of E, which later are the sums [SUBGROUPS,
//         heads, E + 8] f32, and then the factors of parts
// Tiles              16 keys              E
//        16 heads |  scores, p   |  *  | values |  added to sums [16, E] in registers
// Cost    4 E flops a (query, key) pair and head; reads keys and values once
// Numerics  q and p are rounded to KEY_TYPE for their products, whose sums are f32 (in f16 a query
//         beyond 65504 is infinite); online softmax over a sub-group's blocks, then over sub-groups
//         and splits, in a fixed order. Only keys of the range are read. -D SOFT_CAP: soft_cap.clh
//! clc: build on mma: MMA_SYNC HEAD_DIM={64,128} SUBGROUPS=8 STAGES=3 KEY_TYPE=bf16 X_TYPE=bf16
//!     RESULT_TYPE=bf16 PAGE=16
//! clc: build on mma: MMA_SYNC HEAD_DIM=128 SUBGROUPS=8 STAGES=3 KEY_TYPE=f16 X_TYPE=bf16
//!     RESULT_TYPE=bf16 SPLIT=768
//! clc: build on mma: MMA_SYNC HEAD_DIM=256 SUBGROUPS=2 STAGES=2 KEY_TYPE=bf16 X_TYPE=f32
//!     RESULT_TYPE=f32 SPLIT=768 SOFT_CAP=50.0f
//! clc: build MMA_SYNC EMULATED HEAD_DIM=32 SUBGROUPS=2 STAGES=2 KEY_TYPE=bf16 X_TYPE=f32
//!     RESULT_TYPE=f32 PAGE=16
//! clc: build MMA_SYNC EMULATED HEAD_DIM=32 SUBGROUPS=2 STAGES=2 KEY_TYPE=f16 X_TYPE=f16
//!     RESULT_TYPE=bf16 SPLIT=16
#define SUBGROUP_ROWS 16
#define COLUMNS 16
// The largest score has a weight of exactly 1, so a row that attends to one key gets its value.
#define EXPONENT_OF(score, largest, scale_2) (((score) - (largest)) * (scale_2))
#define LEFT_OF_SUMS JOINED(left_of_sums_, KEY_TYPE)
#define MULTIPLY JOINED(multiply_, KEY_TYPE)
#define left_of_sums_bf16 left_of_sums
#define multiply_bf16 multiply
#include "attention/attention_matrix.clh"
#include "attention/attention_decode_parts.clh"
#include "attention/attention_problem.clh"
#include "attention/paged_keys.clh"

#define PAIR JOINED(KEY_TYPE, _pair)
#if !defined(STAGES) || !defined(X_TYPE) || !defined(KEY_TYPE)
#error "STAGES, blocks of a sub-group in local memory, X_TYPE, of q, and KEY_TYPE are required"
#elif STAGES == 2
#define WAIT_FOR_STAGE STAGE_WAIT(0)
#elif STAGES == 3
#define WAIT_FOR_STAGE STAGE_WAIT(1)
#elif STAGES == 4
#define WAIT_FOR_STAGE STAGE_WAIT(2)
#else
#error "STAGES: 2, 3 or 4"
#endif
#if defined(PAGE) && PAGE % 16 != 0
#error "PAGE: a multiple of 16, so that a block of keys is in one page"
#endif
#define BLOCK_BYTES TILE_BYTES(COLUMNS)        // of keys, or of values
#define RING_BYTES (STAGES * 2 * BLOCK_BYTES)  // of a sub-group
#define SUMS_STRIDE (HEAD_DIM + 8)             // neighbouring rows begin in different banks
// Operands of wide heads would exceed the registers of a lane; they stay in local memory.
#define KEEPS_QUERIES (HEAD_DIM <= 128)

// The keys of a split, in blocks of COLUMNS keys of the row, and the range of keys in them.
typedef struct {
  int begin, end, first, last;
} BlockRange;
INLINED BlockRange blocks_of_split(int first, int last, int split, int splits) {
  const int begin = first / COLUMNS, end = last / COLUMNS + 1;
  const int share = (end - begin + splits - 1) / splits;
  const int from = begin + split * share;  // clc: allow index-overflow of a number of keys
  const BlockRange range = {from, min(end, from + share), first, last};
  return range;
}
// The keys of a block that the row attends to, relative to the block's first one.
INLINED int2 range_in_block(BlockRange range, int block) {
  if (block >= range.end) return (int2)(0, -1);
  return (int2)(range.first, range.last) - block * COLUMNS;
}

// The block's first row of the cache. Blocks past the end are not read.
#define BLOCK_ROW(block) KEY_ROW(min(block, range.end - 1) * COLUMNS)

// Copies the keys of a block that are in `keys`, and their values, to `to`; other rows are zero.
INLINED void stage_block(LocalAt to, HeadRows k, HeadRows v, long row, int2 keys, uint lane) {
  lane = fresh(lane);
  UNROLL
  for (uint n = 0; n < (COLUMNS * CHUNKS_USED + LANES - 1) / LANES; ++n) {
    const uint i = n * LANES + lane;
    if (COLUMNS * CHUNKS_USED % LANES != 0 && i >= COLUMNS * CHUNKS_USED) break;
    const int key = (int)(i / CHUNKS_USED);
    const uint chunk = i % CHUNKS_USED;
    const bool is_read = key >= keys.x && key <= keys.y;
    const size_t from = (size_t)(row + key) * k.stride + chunk * 8;
    const uint at = tile_at(key, chunk, CHUNKS);
    stage_chunk(to + at, k.data + from, is_read);
    stage_chunk(to + BLOCK_BYTES + at, v.data + from, is_read);
  }
}

// tile [16, E] = the queries in KEY_TYPE, from `q` on; rows from `heads` on are zero.
INLINED void round_queries(__local uchar* tile, __global const STORED(X_TYPE)* q, int heads,
                           uint item) {
  for (uint i = item; i < 16 * HEAD_DIM / 2; i += ITEMS) {
    const uint row = i / (HEAD_DIM / 2), pair = i % (HEAD_DIM / 2);
    const uint at = row * HEAD_DIM + 2 * pair;
    uint rounded = 0;
    if (row < heads) rounded = PAIR(LOAD_ONE(X_TYPE, q, at), LOAD_ONE(X_TYPE, q, at + 1));
    *(__local uint*)(tile + tile_at(row, pair / 4, CHUNKS) + pair % 4 * 4) = rounded;
  }
}

// scores = the queries times the keys of a block. Sums of even and of odd steps do not wait for
// one another.
INLINED void multiply_queries(MatrixUnit unit, Sums* scores, const Left* queries, LocalAt tile,
                              LocalAt keys) {
  Sums odd;
  clear(scores);
  clear(&odd);
  UNROLL
  for (uint e = 0; e < STEPS; ++e) {
    Right right;
    load_right(unit, &right, keys, 16 * e, 0, CHUNKS);
#if KEEPS_QUERIES
    MULTIPLY(unit, e % 2 ? &odd : scores, &queries[e], &right);
#else
    Left left;
    load_left(unit, &left, tile, 0, 16 * e, CHUNKS);
    MULTIPLY(unit, e % 2 ? &odd : scores, &left, &right);
#endif
  }
#pragma unroll
  for (uint i = 0; i < SUM_ROWS; ++i) {
#pragma unroll
    for (uint j = 0; j < SUM_COLUMNS; ++j) scores->v[i][j] += odd.v[i][j];
  }
}

// The scores of keys outside of the range become minus infinity.
INLINED void mask_block(MatrixUnit unit, Sums* scores, int2 keys) {
#pragma unroll
  for (uint j = 0; j < SUM_COLUMNS; ++j) {
    const int key = sum_column(unit, j);
    if (key >= keys.x && key <= keys.y) continue;
#pragma unroll
    for (uint i = 0; i < SUM_ROWS; ++i) scores->v[i][j] = -INFINITY;
  }
}

// The sums of a sub-group, to sums [16, E] and stats [16]: maximum and total. Only `heads` rows.
INLINED void store_own(MatrixUnit unit, __local float* sums, __local float2* stats, Sums* out,
                       const float* maxima, const float* totals, int heads) {
#pragma unroll
  for (uint i = 0; i < SUM_ROWS; ++i) {
    const float total = row_sum(unit, totals[i]);
    const int row = sum_row(unit, i);
    if (row >= heads) continue;
    if (sum_column(unit, 0) < SUM_RUN) stats[row] = (float2)(maxima[i], total);
    UNROLL
    for (uint e = 0; e < STEPS; ++e) {
#pragma unroll
      for (uint j = 0; j < SUM_COLUMNS; ++j) {
        sums[row * SUMS_STRIDE + e * 16 + sum_column(unit, j)] = out[e].v[i][j];
      }
    }
  }
}

SUBGROUP_OF_LANES __attribute__((reqd_work_group_size(ITEMS, 1, 1))) __kernel void
attention_decode_matrix(
    __global STORED(RESULT_TYPE)* y, __global float* log_sum_exp,
    __global const STORED(X_TYPE)* q, __global const ushort* k, __global const ushort* v,
    __global const int* first, __global const int* last, PAGE_TABLE_PARAMETERS SPLIT_PARAMETERS
    AttentionProblem problem, int heads, int keeps_log_sum_exp) {
  MATRIX_UNIT(unit, SUBGROUPS);
  __local uchar rings[SUBGROUPS * RING_BYTES] __attribute__((aligned(1024)));
  __local uchar q_tile[TILE_BYTES(16)] __attribute__((aligned(1024)));
  __local float2 stats[SUBGROUPS * 16], joined[16];
#ifdef SPLIT
  __local uint arrived;
#endif
  const uint item = get_local_id(0), subgroup = item / LANES;
#ifndef SPLIT
  const int splits = 1;
#endif
  const int h = (int)get_group_id(1) * heads, G = problem.G;
  const long t = get_group_id(0) / splits, row = t * problem.H + h;
  const int split = (int)(get_group_id(0) - t * splits);
  FIND_PAGES(t)
  const size_t key_head = (size_t)(h / (problem.H / G)) * HEAD_DIM;
  const HeadRows keys = {k + key_head, problem.Tk, G * HEAD_DIM};
  const HeadRows values = {v + key_head, problem.Tk, G * HEAD_DIM};
  const int first_key = first[t], last_key = last[t];
#ifdef SPLIT
  const int used = clamp((last_key - first_key + 1) / SPLIT, 1, splits);
  const RowParts row_parts = {parts + row * splits * PART, splits, used};
#else
  const int used = 1;
#endif
  if (split >= used) return;
  const BlockRange range = blocks_of_split(first_key, last_key, split, used);
  const int steps = (range.end - range.begin + SUBGROUPS - 1) / SUBGROUPS;
  const int own = range.begin + (int)subgroup;  // the sub-group's first block
  const LocalAt ring = local_at(rings + subgroup * RING_BYTES);
  for (int n = 0; n < STAGES - 1; ++n) {
    const int block = own + n * SUBGROUPS;
    if (n < steps) {
      stage_block(ring + n * 2 * BLOCK_BYTES, keys, values, BLOCK_ROW(block),
                  range_in_block(range, block), unit.lane);
    }
    STAGE_COMMIT;
  }
  long next_row = steps >= STAGES ? BLOCK_ROW(own + (STAGES - 1) * SUBGROUPS) : 0;
  round_queries(q_tile, q + row * HEAD_DIM, heads, item);
  barrier(CLK_LOCAL_MEM_FENCE);  // the queries of all heads are there

  Left queries[STEPS];
#if KEEPS_QUERIES
  UNROLL
  for (uint e = 0; e < STEPS; ++e) {
    load_left(unit, &queries[e], local_at(q_tile), 0, 16 * e, CHUNKS);
  }
#endif
  const float scale_2 = problem.scale * LOG2_E;
  Sums out[1][STEPS];
  float maxima[1][SUM_ROWS], totals[1][SUM_ROWS];
  UNROLL
  for (uint e = 0; e < STEPS; ++e) clear(&out[0][e]);
#pragma unroll
  for (uint i = 0; i < SUM_ROWS; ++i) {
    maxima[0][i] = -INFINITY;
    totals[0][i] = 0.0f;  // of the lane's own keys
  }
  for (int n = 0; n < steps; ++n) {
    const LocalAt tile = ring + n % STAGES * 2 * BLOCK_BYTES;
    WAIT_FOR_STAGE;
    SUBGROUP_BARRIER;  // the block has arrived, and the one before has been read
    const int ahead = n + STAGES - 1;
    if (ahead < steps) {
      stage_block(ring + ahead % STAGES * 2 * BLOCK_BYTES, keys, values, next_row,
                  range_in_block(range, own + ahead * SUBGROUPS), unit.lane);
      next_row = BLOCK_ROW(own + (ahead + 1) * SUBGROUPS);  // read before it is needed
    }
    STAGE_COMMIT;
    Sums scores[1][1];
    multiply_queries(unit, &scores[0][0], queries, local_at(q_tile), tile);
    cap_scores(scores, problem.scale);
    const int2 attended = range_in_block(range, own + n * SUBGROUPS);
    if (attended.x > 0 || attended.y < COLUMNS - 1) mask_block(unit, &scores[0][0], attended);
    online_softmax(unit, scores, out, maxima, totals, scale_2);
    add_weighted(unit, out, (const Sums(*)[1])scores, tile + BLOCK_BYTES, 0);
  }

  SUBGROUP_BARRIER;  // the last block has been read
  store_own(unit, (__local float*)(rings + subgroup * RING_BYTES), stats + subgroup * 16, out[0],
            maxima[0], totals[0], heads);
  barrier(CLK_LOCAL_MEM_FENCE);  // the sums of all sub-groups are written
  if (item < heads) joined[item] = join_stats(stats + item, SUBGROUPS, 16, scale_2);
  barrier(CLK_LOCAL_MEM_FENCE);  // the factors are written
  for (int i = (int)item; i < heads * HEAD_DIM; i += ITEMS) {
    const int j = i / HEAD_DIM, e = i - j * HEAD_DIM;
    float sum = 0.0f;
#pragma unroll
    for (uint s = 0; s < SUBGROUPS; ++s) {
      __local const float* sums = (__local const float*)(rings + s * RING_BYTES);
      sum = fma(stats[s * 16 + j].x, sums[j * SUMS_STRIDE + e], sum);
    }
    if (used == 1) {
      STORE_ONE(RESULT_TYPE, y, row * HEAD_DIM + i, sum / joined[j].y);
    } else {
      STORE_IN_PART(j, e, sum);
    }
  }
  const bool keeps_log = keeps_log_sum_exp && item < heads;
  if (used == 1 && keeps_log) log_sum_exp[row + item] = log_of(joined[item], problem.scale);
#ifdef SPLIT
  if (item < heads) store_stats(row_parts, item, split, joined[item]);
  volatile __global uint* counter = counters + t * get_num_groups(1) + get_group_id(1);
  const bool joins = arrives_last_of_several(counter, used, &arrived, item);
  __local float2* of_parts = (__local float2*)rings;  // [heads, used]
  if (joins) load_stats(of_parts, row_parts, heads, item);
  barrier(CLK_LOCAL_MEM_FENCE);  // the maxima and totals of all parts are there
  if (joins && item < heads) joined[item] = join_stats(of_parts + item * used, used, 1, scale_2);
  barrier(CLK_LOCAL_MEM_FENCE);  // the factors are written
  if (!joins) return;
  for (int i = (int)item; i < heads * HEAD_DIM; i += ITEMS) {
    const int j = i / HEAD_DIM;
    const float sum = sum_of_parts(row_parts, of_parts + j * used, j, i % HEAD_DIM);
    STORE_ONE(RESULT_TYPE, y, row * HEAD_DIM + i, sum / joined[j].y);
  }
  if (keeps_log) log_sum_exp[row + item] = log_of(joined[item], problem.scale);
#endif
}
