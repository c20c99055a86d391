// delta_rule: the gated delta rule (Yang et al., 2024, "Gated Delta Networks"), forward. For each
// value head, which uses the key head of its group,
//
//   g = rate softplus(a + dt_bias), beta = s(b), s(x) = 1 / (1 + exp(-x))
//   q = KEY_DIM^-1/2 q' / sqrt(|q'|^2 + 1e-6), k = k' / sqrt(|k'|^2 + 1e-6), [q', k', v] = qkv
//   S_t = exp(g_t) S_(t-1) + k_t^T u_t, u_t = beta_t (v_t - k_t exp(g_t) S_(t-1)), y_t = q_t S_t
//
// with S = 0 before the first row of a document. In chunks of rows (delta_rule_problem.clh), with
// the decay D_ij from row j to row i, P_i from the chunk's beginning to row i, and A_ij =
// beta_i D_ij k_i k_j for j < i, the rule is U = (I + A)^-1 beta (V - P K S) and has these kernels:
//   gather   heads of qkv to q, k and v           gates    G, beta, carry = P, to_end
//   chunk    (I + A)^-1, W = (I + A)^-1 beta P K, U' = (I + A)^-1 beta V
//   states   in order: U = U' - W S, S = P_last S + (to_end K)^T U
//   output   y = P Q S + (D Q K^T) U
//   step     one row with a state, for decoding
// -D CACHED: the rows continue a sequence at `rows` = positions, of which negative ones are padding;
// `state` [VALUE_HEADS, KEY_DIM, VALUE_DIM] is S before them, taken as 0 at position 0, and becomes S
// after them. Else `rows` has the first row of each row's document.
// Shapes: qkv [T, 2 KEY_HEADS KEY_DIM + VALUE_HEADS VALUE_DIM]; a, b [T, VALUE_HEADS]; rate, dt_bias
//   [VALUE_HEADS]; y [T, VALUE_HEADS VALUE_DIM]; scratch as in delta_rule_problem.clh
// Types: qkv, a, b, y f32, bf16 or f16 (-D TYPE); rows i32; the others f32
// Work: gather: a group per row, of some heads. gates: an item per chunk and value head. chunk,
//   output: a group per chunk and value head. states: a group per value head and SLICE columns of its
//   state, over all chunks in order. step: an item per column
// Local: gather: GROUP floats
// Cost: per row and value head about 2 CHUNK (2 K + 2 V) + 6 K V flops, and CHUNK^2 / 3 for the
//   inverse; reads and writes the scratch
// Numerics: sums in f32 by the chunk; decays are exponentials of differences within a chunk, at most
//   1. Documents do not mix, since decays between them are 0
//! clc: build TYPE={f32,bf16} CHUNK=64 KEY_DIM=128 VALUE_DIM=128 KEY_HEADS=16 VALUE_HEADS=16 GROUP=128 LANES=4 SLICE=16
//! clc: build TYPE=f32 CHUNK=16 KEY_DIM=6 VALUE_DIM=5 KEY_HEADS=2 VALUE_HEADS=4 GROUP=64 LANES=4 SLICE=16 CACHED
//! clc: budget on gfx90a registers<=160 spills=0
#include "recurrent/delta_rule_problem.clh"
#include "group_reduce.clh"

#ifndef SLICE
#error "SLICE: columns of the state that a group of delta_rule_states owns, a divisor of V_PAD"
#endif

// out [heads, T_pad, pad] = columns [begin, begin + heads width) of x [T, x_width], by heads. scale:
// 0, or of each head's L2-normalised elements.
__attribute__((reqd_work_group_size(GROUP, 1, 1))) __kernel void delta_rule_gather(
    __global float* restrict out, __global const STORED(TYPE)* restrict x, int T, int T_pad,
    int x_width, int begin, int heads, int width, int pad, float scale) {
  __local float scratch[GROUP];
  const int t = (int)get_group_id(0);
  for (int head = (int)get_group_id(1); head < heads; head += (int)get_num_groups(1)) {
    __global float* to = out + ((size_t)head * T_pad + t) * pad;
    __global const STORED(TYPE)* from = x + (size_t)t * x_width + begin + head * width;
    const int count = t < T ? width : 0;
    float factor = 1.0f;
    if (scale != 0.0f) {
      float squares = 0.0f;
      EACH_OF_GROUP(i, count) {
        const float value = LOAD_ONE(TYPE, from, i);
        squares += value * value;
      }
      factor = scale * rsqrt(group_sum(squares, scratch) + NORM_EPSILON);
    }
    EACH_OF_GROUP(i, pad) to[i] = i < count ? factor * LOAD_ONE(TYPE, from, i) : 0.0f;
  }
}

// gates [5, VALUE_HEADS, T_pad]: log_decay, beta, carry, beta_carry and to_end.
__kernel void delta_rule_gates(__global float* restrict gates,
                               __global const STORED(TYPE)* restrict a,
                               __global const STORED(TYPE)* restrict b,
                               __global const float* restrict rate,
                               __global const float* restrict dt_bias,
                               __global const int* restrict rows, int T, int T_pad) {
  const int chunk = (int)get_global_id(0), h = (int)get_global_id(1);
  if (chunk >= T_pad / CHUNK) return;
  const int t0 = chunk * CHUNK;
  const size_t one = (size_t)VALUE_HEADS * T_pad;
  __global float* log_decay = gates + (size_t)h * T_pad + t0;
  float sum = 0.0f;
  for (int i = 0; i < CHUNK; ++i) {
    const int t = t0 + i, document = DOCUMENT_OF(rows, t, T);
#ifdef CACHED
    const bool valid = t < T && rows[t] >= 0;
#else
    const bool valid = t < T;
#endif
    const size_t at = (size_t)t * VALUE_HEADS + h;
    const float g = valid ? rate[h] * softplus(LOAD_ONE(TYPE, a, at) + dt_bias[h]) : 0.0f;
    const float beta = valid ? sigmoid(LOAD_ONE(TYPE, b, at)) : 0.0f;
    sum = (document == t ? 0.0f : sum) + g;
    const float carry = document < t0 ? exp(sum) : 0.0f;
    log_decay[i] = sum;
    log_decay[one + i] = beta;
    log_decay[2 * one + i] = carry;
    log_decay[3 * one + i] = beta * carry;
  }
  const int last_document = DOCUMENT_OF(rows, t0 + CHUNK - 1, T) - t0;
  for (int i = 0; i < CHUNK; ++i) {
    log_decay[4 * one + i] = decay(sum, log_decay[i], CHUNK - 1, i, last_document);
  }
}

// inverse = (I + A)^-1, where scores are A without its factors beta.
INLINED void write_inverse(__global float* inverse, __global const float* scores,
                           __global const float* beta) {
  EACH_OF_GROUP(block, CHUNK / LANES) {
    const int c0 = block * LANES;
    for (int i = 0; i < CHUNK; ++i) {
      float unit[LANES];
      for (int c = 0; c < LANES; ++c) unit[c] = i == c0 + c ? 1.0f : 0.0f;
      lanes sum = 0.0f;
      for (int m = c0; m < i; ++m) sum += scores[i * CHUNK + m] * LOAD(inverse + m * CHUNK + c0);
      STORE(LOAD(unit) - beta[i] * sum, inverse + i * CHUNK + c0);
    }
  }
}

// out = inverse (scale x), of [CHUNK, pad].
INLINED void write_inverse_product(__global float* out,
                                   __global const float* inverse,
                                   __global const float* scale,
                                   __global const float* x, int pad) {
  EACH_OF_GROUP(tile, CHUNK / ROWS * (pad / LANES)) {
    const int i0 = tile_row(tile, pad), c0 = tile_column(tile, pad);
    lanes acc[ROWS];
    for (int r = 0; r < ROWS; ++r) acc[r] = 0.0f;
    add_scaled_product(acc, inverse + i0 * CHUNK, CHUNK, 1, scale, x + c0, pad, i0 + ROWS);
    for (int r = 0; r < ROWS; ++r) STORE(acc[r], out + (size_t)(i0 + r) * pad + c0);
  }
}

__attribute__((reqd_work_group_size(GROUP, 1, 1))) __kernel void delta_rule_chunk(
    __global float* restrict w, __global float* restrict u, __global float* restrict inverse,
    __global float* restrict scores, __global const float* restrict k,
    __global const float* restrict v, __global const float* restrict gates,
    __global const int* restrict rows, int T, int T_pad) {
  const int chunk = (int)get_group_id(0), h = (int)get_group_id(1);
  const size_t one = (size_t)VALUE_HEADS * T_pad, row = (size_t)h * T_pad + chunk * CHUNK;
  const size_t key_row = (size_t)(h / PER_KEY_HEAD) * T_pad + chunk * CHUNK;
  inverse += row * CHUNK;
  scores += row * CHUNK;
  k += key_row * K_PAD;
  write_scores(scores, k, k, K_PAD, gates + row, rows, chunk, T);
  GROUP_SYNC();  // the scores are written
  write_inverse(inverse, scores, gates + one + row);
  GROUP_SYNC();  // the inverse is written
  write_inverse_product(w + row * K_PAD, inverse, gates + 3 * one + row, k, K_PAD);
  write_inverse_product(u + row * V_PAD, inverse, gates + one + row, v + row * V_PAD, V_PAD);
}

__attribute__((reqd_work_group_size(GROUP, 1, 1))) __kernel void delta_rule_states(
    __global float* restrict states, __global float* restrict u, __global const float* restrict w,
    __global const float* restrict k, __global const float* restrict gates,
#ifdef CACHED
    __global float* restrict state,
#endif
    __global const int* restrict rows, int T_pad) {
  const int s0 = (int)get_group_id(0) * SLICE, h = (int)get_group_id(1), N = T_pad / CHUNK;
  __global float* s = states + (size_t)h * (N + 1) * K_PAD * V_PAD + s0;
  EACH_OF_GROUP(e, K_PAD * SLICE) {
    float value = 0.0f;
#ifdef CACHED
    const int d = e / SLICE, c = s0 + e % SLICE;
    if (rows[0] > 0 && d < KEY_DIM && c < VALUE_DIM) {
      value = state[((size_t)h * KEY_DIM + d) * VALUE_DIM + c];
    }
#endif
    s[e / SLICE * V_PAD + e % SLICE] = value;
  }
  for (int chunk = 0; chunk < N; ++chunk, s += K_PAD * V_PAD) {
    const size_t row = (size_t)h * T_pad + chunk * CHUNK, one = (size_t)VALUE_HEADS * T_pad;
    const size_t key_row = (size_t)(h / PER_KEY_HEAD) * T_pad + chunk * CHUNK;
    __global float* u_rows = u + row * V_PAD + s0;
    GROUP_SYNC();  // the state is written
    EACH_OF_GROUP(tile, CHUNK / ROWS * (SLICE / LANES)) {
      const int i0 = tile_row(tile, SLICE), c0 = tile_column(tile, SLICE);
      lanes acc[ROWS];
      for (int r = 0; r < ROWS; ++r) acc[r] = 0.0f;
      add_product(acc, w + (row + i0) * K_PAD, K_PAD, 1, s + c0, V_PAD, K_PAD);
      for (int r = 0; r < ROWS; ++r) {
        __global float* to = u_rows + (size_t)(i0 + r) * V_PAD + c0;
        STORE(LOAD(to) - acc[r], to);
      }
    }
    GROUP_SYNC();  // U is written
    const float carry = gates[2 * one + row + CHUNK - 1];
    EACH_OF_GROUP(tile, K_PAD / ROWS * (SLICE / LANES)) {
      const int d0 = tile_row(tile, SLICE), c0 = tile_column(tile, SLICE);
      lanes acc[ROWS];
      for (int r = 0; r < ROWS; ++r) acc[r] = carry * LOAD(s + (d0 + r) * V_PAD + c0);
      add_scaled_product(acc, k + key_row * K_PAD + d0, 1, K_PAD, gates + 4 * one + row,
                         u_rows + c0, V_PAD, CHUNK);
      for (int r = 0; r < ROWS; ++r) STORE(acc[r], s + K_PAD * V_PAD + (d0 + r) * V_PAD + c0);
    }
  }
#ifdef CACHED
  GROUP_SYNC();  // the last state is written
  EACH_OF_GROUP(e, K_PAD * SLICE) {
    const int d = e / SLICE, c = s0 + e % SLICE;
    if (d < KEY_DIM && c < VALUE_DIM) {
      state[((size_t)h * KEY_DIM + d) * VALUE_DIM + c] = s[d * V_PAD + e % SLICE];
    }
  }
#endif
}

__attribute__((reqd_work_group_size(GROUP, 1, 1))) __kernel void delta_rule_output(
    __global STORED(TYPE)* restrict y, __global float* restrict scores,
    __global const float* restrict q, __global const float* restrict k,
    __global const float* restrict u, __global const float* restrict states,
    __global const float* restrict gates, __global const int* restrict rows, int T, int T_pad) {
  const int chunk = (int)get_group_id(0), h = (int)get_group_id(1), N = T_pad / CHUNK;
  const size_t one = (size_t)VALUE_HEADS * T_pad, row = (size_t)h * T_pad + chunk * CHUNK;
  const size_t key_row = (size_t)(h / PER_KEY_HEAD) * T_pad + chunk * CHUNK;
  scores += row * CHUNK;
  q += key_row * K_PAD;
  write_scores(scores, q, k + key_row * K_PAD, K_PAD, gates + row, rows, chunk, T);
  GROUP_SYNC();  // the scores are written
  __global const float* s = states + ((size_t)h * (N + 1) + chunk) * K_PAD * V_PAD;
  EACH_OF_GROUP(tile, CHUNK / ROWS * (V_PAD / LANES)) {
    const int i0 = tile_row(tile, V_PAD), c0 = tile_column(tile, V_PAD);
    lanes acc[ROWS];
    for (int r = 0; r < ROWS; ++r) acc[r] = 0.0f;
    add_product(acc, q + (size_t)i0 * K_PAD, K_PAD, 1, s + c0, V_PAD, K_PAD);
    for (int r = 0; r < ROWS; ++r) acc[r] *= gates[2 * one + row + i0 + r];
    add_product(acc, scores + i0 * CHUNK, CHUNK, 1, u + row * V_PAD + c0, V_PAD, i0 + ROWS);
    for (int r = 0; r < ROWS; ++r) {
      const int t = chunk * CHUNK + i0 + r;
      float values[LANES];
      STORE(acc[r], values);
      for (int c = 0; c < LANES; ++c) {
        if (t < T && c0 + c < VALUE_DIM) {
          STORE_ONE(TYPE, y, ((size_t)t * VALUE_HEADS + h) * VALUE_DIM + c0 + c, values[c]);
        }
      }
    }
  }
}

#ifdef CACHED
// One row.
__kernel void delta_rule_step(__global STORED(TYPE)* restrict y, __global float* restrict state,
                              __global const STORED(TYPE)* restrict qkv,
                              __global const STORED(TYPE)* restrict a,
                              __global const STORED(TYPE)* restrict b,
                              __global const float* restrict rate,
                              __global const float* restrict dt_bias,
                              __global const int* restrict positions) {
  const int c = (int)get_global_id(0), h = (int)get_global_id(1);
  if (c >= VALUE_DIM) return;
  const int position = positions[0];
  if (position < 0) {
    STORE_ONE(TYPE, y, h * VALUE_DIM + c, 0.0f);
    return;
  }
  __global const STORED(TYPE)* q = qkv + h / PER_KEY_HEAD * KEY_DIM;
  __global const STORED(TYPE)* k = q + KEY_HEADS * KEY_DIM;
  __global float* s = state + (size_t)h * KEY_DIM * VALUE_DIM + c;
  float q_squares = 0.0f, k_squares = 0.0f, recalled = 0.0f;
  for (int d = 0; d < KEY_DIM; ++d) {
    const float q_d = LOAD_ONE(TYPE, q, d), k_d = LOAD_ONE(TYPE, k, d);
    q_squares += q_d * q_d;
    k_squares += k_d * k_d;
    if (position > 0) recalled += k_d * s[d * VALUE_DIM];
  }
  const float q_factor = rsqrt((float)KEY_DIM) * rsqrt(q_squares + NORM_EPSILON);
  const float k_factor = rsqrt(k_squares + NORM_EPSILON);
  const float forget = exp(rate[h] * softplus(LOAD_ONE(TYPE, a, h) + dt_bias[h]));
  const float v = LOAD_ONE(TYPE, qkv, 2 * KEY_HEADS * KEY_DIM + h * VALUE_DIM + c);
  const float u = sigmoid(LOAD_ONE(TYPE, b, h)) * (v - forget * k_factor * recalled);
  float sum = 0.0f;
  for (int d = 0; d < KEY_DIM; ++d) {
    const float before = position > 0 ? forget * s[d * VALUE_DIM] : 0.0f;
    const float after = before + k_factor * LOAD_ONE(TYPE, k, d) * u;
    s[d * VALUE_DIM] = after;
    sum += LOAD_ONE(TYPE, q, d) * after;
  }
  STORE_ONE(TYPE, y, h * VALUE_DIM + c, q_factor * sum);
}
#endif
