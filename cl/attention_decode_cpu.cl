// attention for few query rows over many keys, for CPU devices: the step of a generation. And the
// cache that it reads: cache_append.
//   y[t, h] = sum_k p_k v[k, g],  p = softmax_k(scale * q[t, h] . k[k, g]),  g = h / (H / G)
//
// Shapes  q, y [T, H, E]; k, v [Tk, G, E]; first, last [T] i32; log_sum_exp [T, H];
//         parts [T, H, splits, E + 2]: not yet normalised sums of v, their maximum, their total
// Types   f32
// Work    attention_decode_cpu: a work-group of one work-item owns one row, one key head (with all
//         query heads that share it, so that K and V come from memory once) and one split of the
//         row's keys. attention_join_cpu: a group joins the splits of all heads of one row.
//         cache_append_cpu: a group owns `group_rows` rows.
// Local   q [H / G][E] and sums [H / G][E + 2] of a group, scores [KEYS]
// Cost    4 E flops a (query, key) pair and head; bound by reading k and v once
// Numerics online softmax; only rows of the range are read, so a NaN beyond it does no harm
#include "float16_math.clh"

#ifndef KEYS
#error "KEYS: keys of one block of scores, a multiple of 16"
#endif

#define FOR_SIXTEEN_KEYS(X) \
  X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15)
#define START_KEY(i)                                                    \
  float16 sum##i = 0.0f;                                                \
  __global const float* row##i = k + (long)min(i, count - 1) * k_step;
#define ADD_KEY(i) sum##i = fma(vload16(0, row##i + e), x, sum##i);
#define ADD_KEY_TAIL(i) sum##i = fma(load16_tail(row##i + e, width - e, 0.0f), x, sum##i);
// The lanes of two sums added up in pairs: half as many lanes of each.
#define JOIN_KEYS(a, b) ((float16)(a.even, b.even) + (float16)(a.odd, b.odd))

// Lane i: q . k[i], the last of `count` (at most 16) keys repeated.
__attribute__((always_inline)) float16 scores_of_16(__local const float* q, __global const float* k,
                                                    long k_step, int count, int width) {
  FOR_SIXTEEN_KEYS(START_KEY)
  int e = 0;
  for (; e + 16 <= width; e += 16) {
    const float16 x = vload16(0, q + e);
    FOR_SIXTEEN_KEYS(ADD_KEY)
  }
  if (e < width) {
    const float16 x = vload16(0, q + e);
    FOR_SIXTEEN_KEYS(ADD_KEY_TAIL)
  }
  const float16 a0 = JOIN_KEYS(sum0, sum1), a1 = JOIN_KEYS(sum2, sum3);
  const float16 a2 = JOIN_KEYS(sum4, sum5), a3 = JOIN_KEYS(sum6, sum7);
  const float16 a4 = JOIN_KEYS(sum8, sum9), a5 = JOIN_KEYS(sum10, sum11);
  const float16 a6 = JOIN_KEYS(sum12, sum13), a7 = JOIN_KEYS(sum14, sum15);
  const float16 b0 = JOIN_KEYS(a0, a1), b1 = JOIN_KEYS(a2, a3);
  const float16 b2 = JOIN_KEYS(a4, a5), b3 = JOIN_KEYS(a6, a7);
  const float16 c0 = JOIN_KEYS(b0, b1), c1 = JOIN_KEYS(b2, b3);
  return JOIN_KEYS(c0, c1);
}

// sums = sums * factor + sum_n scores[n] v[n], `count` rows of v
__attribute__((always_inline)) void add_values(__local float* sums, float factor,
                                               __local const float* scores,
                                               __global const float* v, long v_step, int count,
                                               int width) {
  int e = 0;
  for (; e + 64 <= width; e += 64) {
    float16 a = vload16(0, sums + e) * factor, b = vload16(1, sums + e) * factor;
    float16 c = vload16(2, sums + e) * factor, d = vload16(3, sums + e) * factor;
    for (int n = 0; n < count; ++n) {
      const float16 x = (float16)(scores[n]);
      __global const float* row = v + n * v_step + e;
      a = fma(x, vload16(0, row), a);
      b = fma(x, vload16(1, row), b);
      c = fma(x, vload16(2, row), c);
      d = fma(x, vload16(3, row), d);
    }
    vstore16(a, 0, sums + e);
    vstore16(b, 1, sums + e);
    vstore16(c, 2, sums + e);
    vstore16(d, 3, sums + e);
  }
  for (; e < width; e += 16) {
    const int lanes = min(16, width - e);
    float16 a = vload16(0, sums + e) * factor;
    for (int n = 0; n < count; ++n) {
      __global const float* row = v + n * v_step + e;
      a = fma((float16)(scores[n]), lanes == 16 ? vload16(0, row) : load16_tail(row, lanes, 0.0f),
              a);
    }
    vstore16(a, 0, sums + e);
  }
}

// A row of `width` numbers to local memory, with zeros up to a multiple of 16.
void load_padded(__local float* to, __global const float* from, int width, float scale) {
  for (int e = 0; e < width; ++e) to[e] = from[e] * scale;
  for (int e = width; e % 16 != 0; ++e) to[e] = 0.0f;
}

__attribute__((reqd_work_group_size(1, 1, 1))) __kernel void attention_decode_cpu(
    __global float* parts, __global const float* q, __global const float* k,
    __global const float* v, __global const int* first, __global const int* last, int H, int G,
    int E, float scale, int splits, __local float* scratch) {
  const int split = get_group_id(0) % splits;
  const int g = get_group_id(0) / splits % G;
  const int t = get_group_id(0) / splits / G;
  const int heads = H / G, padded = (E + 15) / 16 * 16;
  const long k_step = (long)G * E;
  __local float* queries = scratch;
  __local float* sums = queries + heads * padded;
  __local float* tops = sums + heads * padded;
  __local float* totals = tops + heads;
  __local float* scores = totals + heads;

  for (int j = 0; j < heads; ++j) {
    load_padded(queries + j * padded, q + ((long)t * H + g * heads + j) * E, E, scale);
    for (int e = 0; e < padded; e += 16) vstore16((float16)(0.0f), 0, sums + j * padded + e);
    tops[j] = -1e30f;  // finite: the difference of two infinities would be NaN
    totals[j] = 0.0f;
  }

  const int share = ((last[t] - first[t]) / splits + 16) / 16 * 16;
  const int begin = first[t] + split * share, end = min(last[t] + 1, begin + share);
  for (int key = begin; key < end; key += KEYS) {
    const int keys = min(KEYS, end - key);
    __global const float* k_rows = k + key * k_step + (long)g * E;
    __global const float* v_rows = v + key * k_step + (long)g * E;
    for (int j = 0; j < heads; ++j) {
      float16 top = tops[j];
      for (int n = 0; n < keys; n += 16) {
        const float16 s = scores_of_16(queries + j * padded, k_rows + n * k_step, k_step,
                                       min(16, keys - n), E);
        top = MAX16(top, s);
        vstore16(s, 0, scores + n);
      }
      const float new_top = max16(top);
      const float factor = exp(tops[j] - new_top);
      float16 total = 0.0f;
      for (int n = 0; n < keys; n += 16) {
        float16 p = exp16(vload16(0, scores + n) - new_top);
        if (keys - n < 16) {
          const int16 lane = (int16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
          p = lane < keys - n ? p : (float16)(0.0f);
        }
        total += p;
        vstore16(p, 0, scores + n);
      }
      tops[j] = new_top;
      totals[j] = totals[j] * factor + sum16(total);
      add_values(sums + j * padded, factor, scores, v_rows, k_step, keys, E);
    }
  }

  for (int j = 0; j < heads; ++j) {
    __global float* part = parts + (((long)t * H + g * heads + j) * splits + split) * (E + 2);
    for (int e = 0; e < E; ++e) part[e] = sums[j * padded + e];
    part[E] = tops[j];
    part[E + 1] = totals[j];
  }
}

__attribute__((reqd_work_group_size(1, 1, 1))) __kernel void attention_join_cpu(
    __global float* y, __global float* log_sum_exp, __global const float* parts, int H, int E,
    int splits, int keeps_log_sum_exp) {
  for (int h = 0; h < H; ++h) {
    const long row = (long)get_group_id(0) * H + h;
    __global const float* part = parts + row * splits * (E + 2);
    float top = part[E];
    for (int s = 1; s < splits; ++s) top = max(top, part[s * (E + 2) + E]);
    float total = 0.0f;
    for (int e = 0; e < E; ++e) y[row * E + e] = 0.0f;
    for (int s = 0; s < splits; ++s, part += E + 2) {
      const float factor = exp(part[E] - top);
      total += factor * part[E + 1];
      for (int e = 0; e < E; ++e) y[row * E + e] += factor * part[e];
    }
    for (int e = 0; e < E; ++e) y[row * E + e] /= total;
    if (keeps_log_sum_exp) log_sum_exp[row] = top + log(total);
  }
}

__attribute__((reqd_work_group_size(1, 1, 1))) __kernel void cache_append_cpu(
    __global float* cache, __global const float* rows, __global const int* positions, int T, int S,
    int width, int group_rows) {
  const int begin = get_group_id(0) * group_rows, end = min(T, begin + group_rows);
  for (int t = begin; t < end; ++t) {
    const int position = positions[t];
    if (position < 0 || position >= S) continue;
    __global const float* from = rows + (long)t * width;
    __global float* to = cache + (long)position * width;
    int e = 0;
    for (; e + 16 <= width; e += 16) vstore16(vload16(0, from + e), 0, to + e);
    for (; e < width; ++e) to[e] = from[e];
  }
}
