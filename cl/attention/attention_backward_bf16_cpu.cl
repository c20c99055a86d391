// attention, backward, with bf16 operands, for CPU devices with avx512_bf16, over packed rows: the
// formulas and ranges of attention_backward_cpu.cl with the operands of all five products rounded
// to bf16.
//
// Shapes  q, y, dy, dq [T, H, E]; k, v, dk, dv [T, G, E]; first, last [T] i32; log_sum_exp [T, H];
//         dq_parts [chunks - 1, T, H, E]; E a multiple of 32
// Types   f32
// Work    attention_backward_bf16_cpu: a work-group of one work-item owns the keys of one chunk of
//         one key head: it computes all of their dk and dv, and their contribution to dq. A row's
//         own chunk writes its contribution to dq, the others write to dq_parts. Work-group ids run over key heads, and within a key head over the first chunk, the last,
//         the second, the last but one ..., which balances the work for drivers that hand out
//         ranges of groups.
//         attention_add_parts_cpu (attention_backward_parts_cpu.clh) adds the parts.
// Local   STAGED keys of k and v in `rows` order and of k in `across` order
//         (attention_bf16_tile_cpu.clh); for each of `heads` heads panels of q and dy, both also
//         `across`, and ds `across` [KEYS / 2][32]; p and ds by rows [KEYS][heads][16] for all
//         heads, so that one tile sums dk and dv over them; scores and dp [8][32] of a tile
// Tiles   8 x 32 sums in registers, see attention_bf16_tile_cpu.clh; tiles skip pairs of keys and
//         queries that are fully masked
// Cost    10 E flops a (query, key) pair and head
// Numerics p from the forward's log_sum_exp, at most 1 up to rounding; sums, p and ds in f32; every
//         sum in one fixed order. -D SOFT_CAP: scores are capped (soft_cap.clh)
//! clc: build on avx512_bf16: KEYS=64 STAGED=256 MAX_BLOCKS=2
//! clc: build on avx512_bf16: KEYS=64 STAGED=256 MAX_BLOCKS=2 SOFT_CAP=50.0f
#include "attention/attention_bf16_tile_cpu.clh"
#include "attention/attention_backward_parts_cpu.clh"
#include "attention/attention_problem.clh"

#if !defined(KEYS) || !defined(STAGED)
#error "KEYS: keys of one block of scores; STAGED: keys kept as pairs, a multiple of KEYS"
#endif

#define PREFETCHED 4  // rows of the next block prefetched at once: few, to avoid stalls

// out += left right
BF16_TARGET void tile_add(__global float* out, long out_step, __local const uint* left,
                          long row_step, long step, __local const uint* right, long right_step,
                          int pairs) {
  EACH_OF_ROWS(LOAD_TILE)
  REDUCE_TILE
  EACH_OF_ROWS(STORE_GLOBAL_TILE)
}

// The same for the first `count` rows of a tile; `spare` [8][32] is overwritten.
void rows_add(__global float* out, long out_step, int count, __local float* spare,
              __local const uint* left, long row_step, long step, __local const uint* right,
              long right_step, int pairs) {
  if (count >= ROWS) {
    tile_add(out, out_step, left, row_step, step, right, right_step, pairs);
    return;
  }
  tile_product(spare, 32, left, row_step, step, right, right_step, pairs);
  for (int i = 0; i < count; ++i, out += out_step, spare += 32) {
    store_floats(__global, out, vload16(0, out) + vload16(0, spare));
    store_floats(__global, out + 16, vload16(1, out) + vload16(1, spare));
  }
}

// The per-lane values of a block of queries besides q and dy.
typedef struct {
  __local int* first;
  __local int* last;
  __local float* log_sum;  // in units of log 2
  __local float* dot;      // dy . y
} Lanes;

// Fills log_sums and dots of one head's rows; 0 from `count` on.
void fill_lanes(__local float* log_sums, __local float* dots, __global const float* log_sum_exp,
                int H, __global const float* dy, __global const float* y, long step, int count,
                int width) {
  for (int i = 0; i < QUERIES; ++i) {
    log_sums[i] = i < count ? log_sum_exp[(long)i * H] * LOG2_E : 0.0f;
    dots[i] = i < count ? row_dot(dy + i * step, y + i * step, width) : 0.0f;
  }
}

// Computes p (`weight`) and ds (`change`) of key n for the 16 lanes from `side` on.
#define WEIGHTS_OF(n, side, half, weight, change)                                              \
  float16 weight##_score = vload16(0, scores + (n) * QUERIES + side);                          \
  CAP_SCORES(weight##_score, LN_2);                                                            \
  float16 weight = exp2_16_bf16(weight##_score - log_sum_##half);                              \
  float16 change = weight * (vload16(0, dp + (n) * QUERIES + side) - dot_##half) * scale;      \
  CAP_GRADIENTS(change, weight##_score, LN_2);                                                 \
  if (masked) {                                                                                \
    const int16 seen = (first_##half <= key + (n)) & (last_##half >= key + (n));               \
    weight = seen ? weight : (float16)(0.0f);                                                  \
    change = seen ? change : (float16)(0.0f);                                                  \
  }

// Computes p and ds of 8 keys from the scores and dp = dy . v, by rows, and ds also `across`.
BF16_TARGET void weights_of_scores(__local uint* p, __local uint* ds, long row_pairs,
                                   __local uint* ds_across, __local const float* scores,
                                   __local const float* dp, Lanes lanes, int key, float scale,
                                   bool masked) {
  const float16 log_sum_low = vload16(0, lanes.log_sum), log_sum_high = vload16(1, lanes.log_sum);
  const float16 dot_low = vload16(0, lanes.dot), dot_high = vload16(1, lanes.dot);
  const int16 first_low = vload16(0, lanes.first), first_high = vload16(1, lanes.first);
  const int16 last_low = vload16(0, lanes.last), last_high = vload16(1, lanes.last);
  for (int n = 0; n < ROWS; n += 2) {
    WEIGHTS_OF(n, 0, low, even_low, even_low_change)
    WEIGHTS_OF(n, 16, high, even_high, even_high_change)
    store_words(__local, p + n * row_pairs, pairs_of(even_low, even_high));
    store_words(__local, ds + n * row_pairs, pairs_of(even_low_change, even_high_change));
    WEIGHTS_OF(n + 1, 0, low, odd_low, odd_low_change)
    WEIGHTS_OF(n + 1, 16, high, odd_high, odd_high_change)
    store_words(__local, p + (n + 1) * row_pairs, pairs_of(odd_low, odd_high));
    store_words(__local, ds + (n + 1) * row_pairs, pairs_of(odd_low_change, odd_high_change));
    __local uint* across = ds_across + n / 2 * QUERIES;
    store_words(__local, across, pairs_across(even_low_change, odd_low_change));
    store_words(__local, across + 16, pairs_across(even_high_change, odd_high_change));
  }
}

// out[n] += weights[n] . rows over the lanes of all heads, for `keys` keys, of which the first
// `valid` are stored: dv from p and dy, dk from ds and q. Queries below `ahead` + n do not
// attend to key n.
void add_to_keys(__global float* out, long out_step, int keys, int valid, __local float* spare,
                 __local const uint* weights, __local const uint* rows, int heads, int ahead,
                 int width) {
  const int row_pairs = heads * QUERIES / 2;
  for (int n = 0; n < keys; n += ROWS) {
    const int from = max(0, ahead + n) / 2, joined = from == 0 ? heads : 1;
    for (int j = 0; j < heads; j += joined) {
      const int begin = j * QUERIES / 2 + from, end = (j + joined) * QUERIES / 2;
      for (int e = 0; e < width; e += 32) {
        rows_add(out + n * out_step + e, out_step, valid - n, spare,
                 weights + n * row_pairs + begin, row_pairs, 1, rows + begin * width + e, width,
                 end - begin);
      }
    }
  }
}

// dq[lane] += ds[.., lane] . k for `keys` keys of one head; a tile of lanes covers only keys that
// at least one of its lanes attends to.
void add_to_queries(__global float* dq, long step, int count, __local float* spare,
                    __local const uint* ds_across, __local const uint* k_across,
                    Lanes lanes, int key, int keys, int width) {
  for (int lane = 0; lane < count; lane += ROWS) {
    const int from = max(0, lanes.first[lane] - key) / 2;
    const int to = min(keys, lanes.last[lane + ROWS - 1] + 2 - key) / 2;
    for (int e = 0; e < width && from < to; e += 32) {
      rows_add(dq + lane * step + e, step, count - lane, spare, ds_across + from * QUERIES + lane,
               1, QUERIES, k_across + from * width + e, width, to - from);
    }
  }
}

void zero_rows(__global float* rows, long step, int count, int width) {
  for (int i = 0; i < count; ++i) {
    for (int e = 0; e < width; e += 16) {
      store_floats(__global, rows + i * step + e, (float16)(0.0f));
    }
  }
}

__attribute__((reqd_work_group_size(1, 1, 1))) __kernel void attention_backward_bf16_cpu(
    __global float* dq, __global float* dq_parts, __global float* dk, __global float* dv,
    __global const float* dy, __global const float* y, __global const float* log_sum_exp,
    __global const float* q, __global const float* k, __global const float* v,
    __global const int* first, __global const int* last, AttentionProblem problem, int chunk,
    int heads, __local uint* scratch) {
  const int T = problem.T, H = problem.H, G = problem.G, E = problem.E;
  const float scale = problem.scale;
  const int block_size = E / 2 * QUERIES, across_size = KEYS / 2 * QUERIES;
  __local uint* k_rows = scratch;
  __local uint* v_rows = k_rows + STAGED * E / 2;
  __local uint* k_across = v_rows + STAGED * E / 2;
  __local uint* q_panels = k_across + STAGED * E / 2;
  __local uint* dy_panels = q_panels + heads * block_size;
  __local uint* q_across = dy_panels + heads * block_size;
  __local uint* dy_across = q_across + heads * block_size;
  __local uint* ds_across = dy_across + heads * block_size;
  __local uint* p = ds_across + heads * across_size;
  __local uint* ds = p + heads * across_size;
  __local float* scores = (__local float*)(ds + heads * across_size);
  __local float* dp = scores + ROWS * QUERIES;
  __local float* lane_logs = dp + ROWS * QUERIES;
  __local float* lane_dots = lane_logs + heads * QUERIES;
  __local int* lane_first = (__local int*)(lane_dots + heads * QUERIES);
  __local int* lane_last = lane_first + QUERIES;

  const int chunks = (T + chunk - 1) / chunk;
  const int turn = (int)get_group_id(0) % chunks, g = (int)get_group_id(0) / chunks;
  const int part = turn % 2 ? chunks - 1 - turn / 2 : turn / 2;
  // clc: allow index-overflow below T
  const int c0 = part * chunk, c1 = min(T, c0 + chunk);
  const int h_end = (g + 1) * (H / G);
  const long q_step = (long)H * E, k_step = (long)G * E;

  for (int s0 = c0; s0 < c1; s0 += STAGED) {
    const int s1 = min(c1, s0 + STAGED), staged = (s1 - s0 + ROWS - 1) / ROWS * ROWS;
    const long s_at = s0 * k_step + (long)g * E;
    stage_rows(k_rows, k + s_at, k_step, s1 - s0, staged, E);
    stage_rows(v_rows, v + s_at, k_step, s1 - s0, staged, E);
    stage_across(k_across, k + s_at, k_step, 0, s1 - s0, staged, E);
    zero_rows(dk + s_at, k_step, s1 - s0, E);
    zero_rows(dv + s_at, k_step, s1 - s0, E);

    // A multiple of QUERIES: a block of queries has one own chunk.
    const int t_begin = problem.causal ? s0 : first[s0] / QUERIES * QUERIES;
    for (int t0 = t_begin; t0 < T && first[t0] < s1; t0 += QUERIES) {
      const int count = min(QUERIES, T - t0);
      // Full tiles of keys: s0 and `staged` are multiples of 8.
      const int begin = max(s0, first[t0] / ROWS * ROWS);
      const int end = min(s0 + staged, (last[t0 + count - 1] + ROWS) / ROWS * ROWS);
      const int all_begin = first[t0 + count - 1], all_end = last[t0] + 1;
      const bool first_keys = s0 == c0 || first[t0] / ROWS * ROWS >= s0;
      __global float* dq_to = dq_of_chunk(dq, dq_parts, t0, part, c0, c1, T * q_step);
      for (int i = 0; i < QUERIES; ++i) {
        lane_first[i] = i < count ? first[t0 + i] : INT_MAX;
        lane_last[i] = last[min(t0 + i, T - 1)];
      }

      for (int h = g * (H / G); h < h_end; h += heads) {
        const int head_count = min(heads, h_end - h), row_pairs = head_count * QUERIES / 2;
        const long q_at = t0 * q_step + (long)h * E;
        for (int j = 0; j < head_count; ++j) {
          const long at = q_at + j * E;
          stage_panel(q_panels + j * block_size, q + at, q_step, count, E, scale * LOG2_E);
          stage_panel(dy_panels + j * block_size, dy + at, q_step, count, E, 1.0f);
          stage_across(q_across + j * block_size, q + at, q_step, 0, count, QUERIES, E);
          stage_across(dy_across + j * block_size, dy + at, q_step, 0, count, QUERIES, E);
          fill_lanes(lane_logs + j * QUERIES, lane_dots + j * QUERIES,
                     log_sum_exp + (long)t0 * H + h + j, H, dy + at, y + at, q_step, count, E);
          if (first_keys) zero_rows(dq_to + at, q_step, count, E);
        }

        for (int key = begin; key < end; key += KEYS) {
          const int keys = min(KEYS, end - key), from = key - s0;
          for (int j = 0; j < head_count; ++j) {
            const Lanes lanes = {lane_first, lane_last, lane_logs + j * QUERIES,
                                 lane_dots + j * QUERIES};
            for (int n = 0; n < keys; n += ROWS) {
              const int at = (from + n) * E / 2;
              // Prefetches the next block's rows, spread over the first keys.
              const long next = q_at + j * E + (QUERIES + n / ROWS * PREFETCHED) * q_step;
              const bool fetches = key == begin && t0 + QUERIES + (n / ROWS + 1) * PREFETCHED <= T;
              if (fetches) prefetch_rows(q + next, q_step, PREFETCHED, E);
              rows_times_panel(scores, k_rows + at, ROWS, q_panels + j * block_size, E);
              if (fetches) prefetch_rows(dy + next, q_step, PREFETCHED, E);
              rows_times_panel(dp, v_rows + at, ROWS, dy_panels + j * block_size, E);
              if (fetches) prefetch_rows(y + next, q_step, PREFETCHED, E);
              const bool masked =
                  count < QUERIES || key + n < all_begin || key + n + ROWS > all_end;
              weights_of_scores(p + n * row_pairs + j * QUERIES / 2,
                                ds + n * row_pairs + j * QUERIES / 2, row_pairs,
                                ds_across + j * across_size + n / 2 * QUERIES, scores, dp,
                                lanes, key + n, scale, masked);
              if (fetches) prefetch_rows(dq_to + next, q_step, PREFETCHED, E);
            }
            add_to_queries(dq_to + q_at + j * E, q_step, count, scores, ds_across + j * across_size,
                           k_across + from / 2 * E, lanes, key, keys, E);
          }
          const long k_at = key * k_step + (long)g * E;
          const int ahead = problem.causal ? key - t0 : -KEYS;
          add_to_keys(dv + k_at, k_step, keys, s1 - key, scores, p, dy_across, head_count, ahead,
                      E);
          add_to_keys(dk + k_at, k_step, keys, s1 - key, scores, ds, q_across, head_count, ahead,
                      E);
        }
      }
    }
  }
}
