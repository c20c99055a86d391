// attention_wgmma: grouped-query attention over ranges of keys, forward, on Hopper's matrix units.
//
//   y[t, h] = sum_k p_k v[k, g],  p = softmax_k(scale * q[t, h] . k[k, g]),  g = h / (H / G)
//   log_sum_exp[t, h] = log sum_k exp(scale * q[t, h] . k[k, g]),  k in first[t] .. last[t]
// Shapes  q [T, H, E], k and v [Tk, G, E] by their maps (cl/tensor_map.cl) in this order, in boxes of
//         128 rows; y [T, H, E]; first, last [T] i32; log_sum_exp [T, H]; E = WIDTH of 64 or 128
//         order: cl/attention_order.cl
// Types   q, k and v bf16, read through their maps alone; y f32 or bf16 (-D RESULT_BF16); else f32
// Work    a persistent grid of work-groups of three warp groups; a tile is 128 rows of one head. The
//         first warp tells each tile's range of keys and starts copies of 128 keys, and of their
//         values, into rings of 4 (E of 64) or 2; the two other warp groups own 64 rows each. Blocks of keys are
//         taken from the last to the first; those that no row of the tile sees are left out. The
//         softmax of one block runs while the values of the block before are multiplied: the
//         weights stay in registers, where they are that product's left operand.
// Local   147 or 164 KB
// Cost    4 E flops a (query, key) pair and head
// Numerics online softmax (Milakov and Gimelshein, 2018) in f32; weights are rounded to bf16
#include "hopper.clh"
#include "hopper_lanes.clh"
#include "hopper_products.clh"
#include "hopper_rows.clh"

#define ROWS 128  // of queries, and of keys
#define BOXES (WIDTH / 64)
#define BOX_BYTES (ROWS * 128)
#define TILE_BYTES (BOXES * BOX_BYTES)
#define RING (4 / BOXES)
#define MAP_BYTES 128
#define LOG2_E 1.44269504f

// Of a tile: the blocks of keys begin .. end - 1, each 128 keys, are seen by some row; a block is
// seen whole by every row if its keys lie in [all_from, all_to].
struct Range {
  int begin, end, all_from, all_to;
};

// By a whole warp. Rows past the last one stand for none.
struct Range range_of(__global const int* first, __global const int* last, int t0, int T, int lane) {
  int from = INT_MAX, all_from = 0, to = -1, all_to = INT_MAX;
  for (int t = t0 + lane; t < min(T, t0 + ROWS); t += 32) {
    from = min(from, first[t]);
    all_from = max(all_from, first[t]);
    to = max(to, last[t]);
    all_to = min(all_to, last[t]);
  }
  struct Range range;
  range.begin = warp_min(from) / ROWS;
  range.end = warp_max(to) / ROWS + 1;
  range.all_from = warp_max(all_from);
  range.all_to = warp_min(all_to);
  return range;
}

void copy_tile(uint to, __global const uchar* map, int head, int row, uint ready) {
  barrier_expect(ready, TILE_BYTES);
  for (int b = 0; b < BOXES; ++b) {
    copy_box(to + b * BOX_BYTES, map, (head * BOXES + b) * 64, row, ready);
  }
}

// Tiles with most keys go first; every other round goes back, so that who had the longest of one has
// the shortest of the next.
#define EACH_TILE for (int round = 0, id; (id = tile_of(round)) < (T + ROWS - 1) / ROWS * H; ++round)
#define TILE_PLACE const int h = id % H, t0 = order[id / H] * ROWS;
int tile_of(int round) {
  const int groups = get_num_groups(0), group = get_group_id(0);
  return round * groups + (round % 2 ? groups - 1 - group : group);
}
#define NEXT_STAGE        \
  if (++stage == RING) {  \
    stage = 0;            \
    phase ^= 1;           \
  }
// To the e-th 16 columns of a tile of boxes, in an operand's units of 16 bytes.
#define STEPS_FURTHER(e) ((e) / 4 * (BOX_BYTES / 16) + (e) % 4 * NEXT_STEPS)
// scores = q k^T of the stage's keys, 64 rows of the warp group.
#define MULTIPLY_KEYS                                                                              \
  {                                                                                                \
    const ulong q_rows = operand_at(q_tile + part * 8192);                                         \
    const ulong keys = operand_at(k_tiles + stage * TILE_BYTES);                                   \
    _Pragma("unroll") for (int e = 0; e < WIDTH / 16; ++e) PRODUCT(128)(                           \
        scores, q_rows + STEPS_FURTHER(e), keys + STEPS_FURTHER(e), e != 0, "0");                  \
    PRODUCTS_COMMIT;                                                                               \
  }
// out (+)= weights v of the values at a stage.
#define MULTIPLY_VALUES(at, keep)                                                                  \
  {                                                                                                \
    const ulong values = transposed_boxes_at(v_tiles + (at) * TILE_BYTES, ROWS);                   \
    _Pragma("unroll") for (int e = 0; e < ROWS / 16; ++e) REGISTERS_PRODUCT(WIDTH)(                \
        out, weights[e], values + e * NEXT_TRANSPOSED_STEPS, (keep) || e, "1");                    \
    PRODUCTS_COMMIT;                                                                               \
  }
// scores become weights beside `top`, whose change scales what was summed before.
#define SOFTMAX                                                                                    \
  float next_0 = top_0, next_1 = top_1;                                                            \
  if (key < range.all_from || key + ROWS - 1 > range.all_to) {                                     \
    const int at = key + 2 * (lane % 4);                                                           \
    _Pragma("unroll") for (int i = 0; i < 64; ++i) {                                               \
      const int k = at + i / 4 * 8 + i % 2;                                                        \
      if (i & 2 ? k < first_1 || k > last_1 : k < first_0 || k > last_0) scores[i] = -INFINITY;    \
    }                                                                                              \
  }                                                                                                \
  _Pragma("unroll") for (int i = 0; i < 64; ++i) {                                                 \
    if (i & 2) {                                                                                   \
      next_1 = fmax(next_1, scores[i]);                                                            \
    } else {                                                                                       \
      next_0 = fmax(next_0, scores[i]);                                                            \
    }                                                                                              \
  }                                                                                                \
  next_0 = row_max(next_0);                                                                        \
  next_1 = row_max(next_1);                                                                        \
  /* A row that has seen nothing yet: any finite reference makes its weights zero. */              \
  const float reference_0 = next_0 == -INFINITY ? 0.0f : next_0 * scale_2;                         \
  const float reference_1 = next_1 == -INFINITY ? 0.0f : next_1 * scale_2;                         \
  const float factor_0 = exp2_of(fma(top_0, scale_2, -reference_0));                               \
  const float factor_1 = exp2_of(fma(top_1, scale_2, -reference_1));                               \
  top_0 = next_0;                                                                                  \
  top_1 = next_1;                                                                                  \
  total_0 *= factor_0;                                                                             \
  total_1 *= factor_1;                                                                             \
  _Pragma("unroll") for (int i = 0; i < 64; ++i) {                                                 \
    scores[i] = exp2_of(fma(scores[i], scale_2, i & 2 ? -reference_1 : -reference_0));             \
    if (i & 2) {                                                                                   \
      total_1 += scores[i];                                                                        \
    } else {                                                                                       \
      total_0 += scores[i];                                                                        \
    }                                                                                              \
  }
#define ROUND_WEIGHTS                                                                              \
  _Pragma("unroll") for (int i = 0; i < 32; ++i) {                                                 \
    weights[i / 4][i % 4] = bf16_pair(scores[2 * i], scores[2 * i + 1]);                           \
  }

__attribute__((reqd_work_group_size(384, 1, 1))) __kernel void attention_wgmma(
    __global RESULT* y, __global float* log_sum_exp, __global const uchar* maps,
    __global const int* first, __global const int* last, __global const int* order, int T, int H,
    int G, float scale, int keeps_log_sum_exp) {
  HOPPER_KERNEL;
  __local uchar tiles[(1 + 2 * RING) * TILE_BYTES] __attribute__((aligned(1024)));
  __local ulong barriers[2 + 4 * RING];
  __local struct Range shared_range;
  const uint q_full = shared_address(barriers), q_empty = q_full + 8, k_full = q_empty + 8,
             k_empty = k_full + 8 * RING, v_full = k_empty + 8 * RING, v_empty = v_full + 8 * RING;
  const uint q_tile = shared_address(tiles), k_tiles = q_tile + TILE_BYTES,
             v_tiles = k_tiles + RING * TILE_BYTES;
  const int item = get_local_id(0), lane = item % 32;
  if (item == 0) {
    barrier_begin(q_full, 1);
    barrier_begin(q_empty, 2);
    for (int i = 0; i < RING; ++i) {
      barrier_begin(k_full + 8 * i, 1);
      barrier_begin(v_full + 8 * i, 1);
      barrier_begin(k_empty + 8 * i, 2);
      barrier_begin(v_empty + 8 * i, 2);
    }
    barriers_begun();
    for (int i = 0; i < 3; ++i) map_written(maps + i * MAP_BYTES);
  }
  barrier(CLK_LOCAL_MEM_FENCE);  // all see the barriers
  uint stage = 0, phase = 0, q_phase = 0;
  if (item < 128) {
    FEWER_REGISTERS;
    if (item >= 32) return;
    EACH_TILE {
      TILE_PLACE
      const struct Range range = range_of(first, last, t0, T, lane);
      if (lane == 0) {
        barrier_wait(q_empty, q_phase ^ 1);
        shared_range = range;
        copy_tile(q_tile, maps, h, t0, q_full);
        for (int block = range.end - 1; block >= range.begin; --block) {
          barrier_wait(k_empty + 8 * stage, phase ^ 1);
          copy_tile(k_tiles + stage * TILE_BYTES, maps + MAP_BYTES, h / (H / G), block * ROWS,
                    k_full + 8 * stage);
          barrier_wait(v_empty + 8 * stage, phase ^ 1);
          copy_tile(v_tiles + stage * TILE_BYTES, maps + 2 * MAP_BYTES, h / (H / G), block * ROWS,
                    v_full + 8 * stage);
          NEXT_STAGE
        }
      }
      q_phase ^= 1;
      warp_together();
    }
    return;
  }
  MORE_REGISTERS;
  const int part = item / 128 - 1;
  const bool tells = item % 128 == 0;
  const int row = part * 64 + item % 128 / 32 * 16 + lane / 4;
  const float scale_2 = scale * LOG2_E;  // scores in units of log 2
  float scores[64], out[WIDTH / 2];
  uint weights[8][4];
  EACH_TILE {
    TILE_PLACE
    const int t_0 = t0 + row, t_1 = t_0 + 8;
    const int first_0 = t_0 < T ? first[t_0] : INT_MAX, first_1 = t_1 < T ? first[t_1] : INT_MAX;
    const int last_0 = t_0 < T ? last[t_0] : -1, last_1 = t_1 < T ? last[t_1] : -1;
    float top_0 = -INFINITY, top_1 = -INFINITY, total_0 = 0.0f, total_1 = 0.0f;
    barrier_wait(q_full, q_phase);
    q_phase ^= 1;
    const struct Range range = shared_range;
    int key = (range.end - 1) * ROWS;
    barrier_wait(k_full + 8 * stage, phase);
    PRODUCTS_FENCE;
    MULTIPLY_KEYS
    PRODUCTS_ENDED(128)(scores);
    if (tells) barrier_arrive(k_empty + 8 * stage);
    { SOFTMAX }
    ROUND_WEIGHTS
    int keep = 0;
    for (int block = range.end - 2; block >= range.begin; --block) {
      const uint before = stage, before_phase = phase;
      NEXT_STAGE
      key = block * ROWS;
      barrier_wait(k_full + 8 * stage, phase);
      PRODUCTS_FENCE;
      MULTIPLY_KEYS
      barrier_wait(v_full + 8 * before, before_phase);
      PRODUCTS_FENCE;
      MULTIPLY_VALUES(before, keep)
      keep = 1;
      EARLIER_ENDED(128)(scores);
      if (tells) barrier_arrive(k_empty + 8 * stage);
      SOFTMAX
#if WIDTH == 128
      // Long there. It ends a block of instructions: the assembler would put the products' end, which
      // knows nothing of the softmax, before it. Narrow heads gain nothing by it.
      barrier_wait(v_full + 8 * before, before_phase);
#endif
      PRODUCTS_ENDED(WIDTH)(out);
      if (tells) barrier_arrive(v_empty + 8 * before);
#pragma unroll
      for (int i = 0; i < WIDTH / 2; ++i) out[i] *= i & 2 ? factor_1 : factor_0;
      ROUND_WEIGHTS
    }
    if (tells) barrier_arrive(q_empty);
    barrier_wait(v_full + 8 * stage, phase);
    PRODUCTS_FENCE;
    MULTIPLY_VALUES(stage, keep)
    total_0 = row_sum(total_0);
    total_1 = row_sum(total_1);
    PRODUCTS_ENDED(WIDTH)(out);
    if (tells) barrier_arrive(v_empty + 8 * stage);
    NEXT_STAGE
    const size_t at = (size_t)t_0 * H + h;
    if (keeps_log_sum_exp && lane % 4 == 0) {
      if (t_0 < T) log_sum_exp[at] = fma(top_0, scale, log(total_0));
      if (t_1 < T) log_sum_exp[at + 8 * H] = fma(top_1, scale, log(total_1));
    }
#pragma unroll
    for (int b = 0; b < BOXES; ++b) {
      store_rows(y + at * WIDTH + 64 * b, H * WIDTH, T - t_0, out + 32 * b, 1.0f / total_0,
                 1.0f / total_1, lane);
    }
  }
}
