// attention, forward, with bf16 operands, for CPU devices with avx512_bf16: the formula of
// attention_cpu.cl with the products
//   bf16(scale log2(e) q) . bf16(k)   and   bf16(p) bf16(v)
//
// Shapes  q, y [T, H, E]; k, v [Tk, G, E]; first, last [T] i32; log_sum_exp [T, H]; E a multiple
//         of 32
// Types   k and v of -D KEY_TYPE: f32 (without it), bf16 or f16; all else f32
// Work    a work-group of one work-item owns `blocks` blocks of 32 rows of up to `heads` heads that
//         share a key head, one panel each; work-group ids run over stretches of rows, the last,
//         the first, the last but one ..., with heads innermost, which balances the work for
//         drivers that hand out ranges of groups.
// Local   for each panel: q, sums [32][E] of y, the running maxima and totals; for the current
//         block of keys: k by rows, v `across`, and scores [KEYS][32], which become p `across`
// Tiles   8 x 32 sums in registers, see attention_bf16_tile_cpu.clh; the running maximum is
//         corrected once for each KEYS keys; keys that no row of the block attends to are skipped
// Cost    4 E flops a (query, key) pair and head; k and v are rounded once for all panels of a
//         group
// Numerics sums, maxima and totals in f32; a total sums p before rounding. A lane takes no value
//         from a row outside its range, so a NaN there is harmless: p is 0 there, and if values are
//         not finite each row gets its own copy of v. -D SOFT_CAP: scores are capped
//         (soft_cap.clh)
//! clc: build on avx512_bf16: KEYS=64 STAGED=256 MAX_BLOCKS=2 KEY_TYPE={f32,bf16,f16}
//! clc: build on avx512_bf16: KEYS=64 STAGED=256 MAX_BLOCKS=2 SOFT_CAP=50.0f
#include "attention/attention_bf16_tile_cpu.clh"
#include "attention/attention_problem.clh"

#if !defined(KEYS) || !defined(MAX_BLOCKS)
#error "KEYS: keys of one block of scores, a multiple of 8; MAX_BLOCKS: the most `blocks` may be"
#endif

// out[i] = factor[i] out[i] + left right
BF16_TARGET void tile_scaled_add(__local float* out, long out_step, __local const float* factor,
                                 __local const uint* left, long row_step, long step,
                                 __local const uint* right, long right_step, int pairs) {
  EACH_OF_ROWS(LOAD_SCALED_TILE)
  REDUCE_TILE
  EACH_OF_ROWS(STORE_LOCAL_TILE)
}

// Whether one of the bf16 is infinite or NaN.
bool has_non_finite(__local const uint* pairs, int count) {
  int16 found = 0;
  for (int i = 0; i < count; i += 16) {
    const uint16 both = vload16(0, pairs + i);
    found |= ((both & 0x7f80u) == 0x7f80u) | ((both & 0x7f800000u) == 0x7f800000u);
  }
  return any(found);
}

// Sets scores to -INFINITY for lanes that do not attend to the keys key .. key + 7.
void mask_scores(__local float* scores, __local const int* lane_first,
                 __local const int* lane_last, int key) {
  for (int side = 0; side < QUERIES; side += 16) {
    const int16 first = vload16(0, lane_first + side), last = vload16(0, lane_last + side);
    for (int n = 0; n < ROWS; ++n) {
      __local float* at = scores + n * QUERIES + side;
      const int16 seen = (first <= key + n) & (last >= key + n);
      store_floats(__local, at, seen ? vload16(0, at) : (float16)(-INFINITY));
    }
  }
}

// Replaces the scores by the weights p, `across`, in place. Updates maxima and totals; factors
// receives the scale of earlier sums.
BF16_TARGET void weights_of_scores(__local float* scores, __local float* row_max,
                                   __local float* totals, __local float* factors, int count) {
  for (int side = 0; side < QUERIES; side += 16) {
    __local float* at = scores + side;
    __local uint* weights = (__local uint*)at;
    const float16 before = vload16(0, row_max + side);
    float16 new_max = before, other = before;
    for (int n = 0; n < count; n += 2) {
      new_max = MAX16(vload16(0, at + n * QUERIES), new_max);
      other = MAX16(vload16(0, at + (n + 1) * QUERIES), other);
    }
    new_max = MAX16(new_max, other);
    const float16 factor = exp2_16_bf16(before - new_max);
    float16 even_total = vload16(0, totals + side) * factor, odd_total = 0.0f;
    for (int n = 0; n < count; n += 2) {
      const float16 even = exp2_16_bf16(vload16(0, at + n * QUERIES) - new_max);
      const float16 odd = exp2_16_bf16(vload16(0, at + (n + 1) * QUERIES) - new_max);
      even_total += even;
      odd_total += odd;
      store_words(__local, weights + n / 2 * QUERIES, pairs_across(even, odd));
    }
    store_floats(__local, row_max + side, new_max);
    store_floats(__local, factors + side, factor);
    store_floats(__local, totals + side, even_total + odd_total);
  }
}

// sums [32, width] = factors sums + p v for the keys key .. key + count - 1; a tile of lanes covers
// only keys that at least one of its lanes attends to.
void add_values(__local float* sums, __local const float* factors, __local const uint* weights,
                __local const uint* values, __local const int* lane_first,
                __local const int* lane_last, int key, int count, int width) {
  for (int lane = 0; lane < QUERIES; lane += ROWS) {
    int from = count, to = 0;
    for (int i = lane; i < lane + ROWS; ++i) {
      from = min(from, max(0, lane_first[i] - key));
      to = max(to, min(count, lane_last[i] + 1 - key));
    }
    // A tile of lanes without a key has factors of 1, so it may be skipped.
    from /= 2;
    to = (to + 1) / 2;
    for (int e = 0; e < width && from < to; e += 32) {
      tile_scaled_add(sums + lane * width + e, width, factors + lane,
                      weights + from * QUERIES + lane, 1, QUERIES, values + from * width + e,
                      width, to - from);
    }
  }
}

// As add_values(), for values that are not finite: each lane uses a copy of v with masked rows
// zeroed. All eight rows of a tile are that lane.
void add_seen_values(__local float* sums, __local const float* factors,
                     __local const uint* weights, __local uint* values,
                     __global const STORED(KEY_TYPE)* v_rows, long v_step,
                     __local const int* lane_first, __local const int* lane_last, int key, int keys,
                     int padded, int width) {
  for (int lane = 0; lane < QUERIES; ++lane) {
    const int from = max(0, lane_first[lane] - key), to = min(keys, lane_last[lane] + 1 - key);
    if (from >= to) continue;
    stage_across(values, v_rows, v_step, from, to, padded, width);
    for (int e = 0; e < width; e += 32) {
      tile_scaled_add(sums + lane * width + e, 0, factors + lane, weights + lane, 0, QUERIES,
                      values + e, width, padded / 2);
    }
  }
}

// Writes y and log_sum_exp of the first `count` lanes of one head.
void store_results(__global float* y, long y_step, __global float* log_sum_exp, int H,
                   __local const float* sums, __local const float* row_max,
                   __local const float* totals, int count, int width) {
  for (int i = 0; i < count; ++i) {
    const float16 factor = (float16)(1.0f / totals[i]);
    for (int e = 0; e < width; e += 16) {
      store_floats(__global, y + i * y_step + e, vload16(0, sums + i * width + e) * factor);
    }
  }
  if (log_sum_exp == 0) return;
  float logs[QUERIES];
  for (int side = 0; side < QUERIES; side += 16) {
    const float16 log_total = log2(vload16(0, totals + side));
    store_floats(__private, logs + side, (vload16(0, row_max + side) + log_total) * LN_2);
  }
  for (int i = 0; i < count; ++i) log_sum_exp[(long)i * H] = logs[i];
}

__attribute__((reqd_work_group_size(1, 1, 1))) __kernel void attention_forward_bf16_cpu(
    __global float* y, __global float* log_sum_exp, __global const float* q,
    __global const STORED(KEY_TYPE)* k, __global const STORED(KEY_TYPE)* v,
    __global const int* first, __global const int* last, AttentionProblem problem,
    int keeps_log_sum_exp, int heads, int blocks, __local uint* scratch) {
  const int T = problem.T, H = problem.H, G = problem.G, E = problem.E;
  const int panel_size = E / 2 * QUERIES, sums_size = E * QUERIES;
  __local uint* panels = scratch;
  __local uint* keys_staged = panels + heads * blocks * panel_size;
  __local uint* values = keys_staged + KEYS * E / 2;
  __local float* sums = (__local float*)(values + KEYS * E / 2);
  __local float* scores = sums + heads * blocks * sums_size;
  __local float* row_max = scores + KEYS * QUERIES;
  __local float* totals = row_max + heads * blocks * QUERIES;
  __local float* factors = totals + heads * blocks * QUERIES;
  __local int* lane_first = (__local int*)(factors + QUERIES);
  __local int* lane_last = lane_first + blocks * QUERIES;

  const int shares = (H / G + heads - 1) / heads;  // groups of heads that share a key head
  const int stretch = blocks * QUERIES, stretches = (T + stretch - 1) / stretch;
  const int turn = (int)get_group_id(0) / (G * shares), part = (int)get_group_id(0) % (G * shares);
  // clc: allow index-overflow below T
  const int t0 = (turn % 2 ? turn / 2 : stretches - 1 - turn / 2) * stretch;
  const int g = part / shares, h = g * (H / G) + part % shares * heads;
  const int head_count = min(heads, (g + 1) * (H / G) - h);
  const int row_count = min(stretch, T - t0), block_count = (row_count + QUERIES - 1) / QUERIES;
  const int panel_count = head_count * block_count;  // block by block
  const long q_step = (long)H * E, k_step = (long)G * E;
  const long q_at = t0 * q_step + (long)h * E;

  for (int i = 0; i < panel_count * sums_size; i += 16) {
    store_floats(__local, sums + i, (float16)(0.0f));
  }
  for (int i = 0; i < panel_count * QUERIES; ++i) {
    row_max[i] = -1e30f;  // finite: the difference of two infinities would be NaN
    totals[i] = 0.0f;
  }
  KeyRange ranges[MAX_BLOCKS];
  int begin = INT_MAX, end = 0;
  for (int i = 0; i < block_count; ++i) {
    const int row = i * QUERIES;
    ranges[i] = key_range(lane_first + row, lane_last + row, first + t0 + row, last + t0 + row,
                          min(QUERIES, row_count - row));
    begin = min(begin, ranges[i].begin);
    end = max(end, ranges[i].end);
  }

  for (int key0 = begin; key0 < end; key0 += KEYS) {
    const int keys = min(KEYS, end - key0), padded = (keys + ROWS - 1) / ROWS * ROWS;
    __global const STORED(KEY_TYPE)* v_rows = v + key0 * k_step + (long)g * E;
    stage_rows(keys_staged, k + key0 * k_step + (long)g * E, k_step, keys, padded, E);
    stage_across(values, v_rows, k_step, 0, keys, padded, E);
    bool restages = false;
    for (int i = 0; i < panel_count; ++i) {
      const int row = i / head_count * QUERIES;
      const KeyRange range = ranges[i / head_count];
      if (key0 == begin) {
        const long at = q_at + row * q_step + i % head_count * E;
        stage_panel(panels + i * panel_size, q + at, q_step, row_count - row, E,
                    problem.scale * LOG2_E);
        // Prefetches the next head's rows of q, and the destination of this head's results.
        const int ahead = min(QUERIES, row_count - row);
        if ((i + 1) % head_count > 0) prefetch_rows(q + at + E, q_step, ahead, E);
        prefetch_rows(y + at, q_step, ahead, E);
      }
      // The tiles of keys that the panel's rows attend to.
      const int from = max(0, range.begin - key0) / ROWS * ROWS;
      const int count = min(padded, (range.end - key0 + ROWS - 1) / ROWS * ROWS) - from;
      const int key = key0 + from;
      if (count <= 0) continue;
      rows_times_panel(scores, keys_staged + from * E / 2, count, panels + i * panel_size, E);
      cap_scores(scores, count);
      bool masked = false;
      for (int n = 0; n < count; n += ROWS) {
        if (key + n >= range.all_begin && key + n + ROWS <= range.all_end) continue;
        mask_scores(scores + n * QUERIES, lane_first + row, lane_last + row, key + n);
        masked = true;
      }
      weights_of_scores(scores, row_max + i * QUERIES, totals + i * QUERIES, factors, count);
      restages = restages || (masked && has_non_finite(values, padded * E / 2));
      if (restages) {
        add_seen_values(sums + i * sums_size, factors, (__local const uint*)scores, values,
                        v_rows + from * k_step, k_step, lane_first + row, lane_last + row, key,
                        min(keys - from, count), count, E);
      } else {
        add_values(sums + i * sums_size, factors, (__local const uint*)scores,
                   values + from / 2 * E, lane_first + row, lane_last + row, key, count, E);
      }
    }
  }
  for (int i = 0; i < panel_count; ++i) {
    const int row = i / head_count * QUERIES, head = i % head_count;
    store_results(y + q_at + row * q_step + head * E, q_step,
                  keeps_log_sum_exp ? log_sum_exp + (long)(t0 + row) * H + h + head : 0, H,
                  sums + i * sums_size, row_max + i * QUERIES, totals + i * QUERIES,
                  min(QUERIES, row_count - row), E);
  }
}
