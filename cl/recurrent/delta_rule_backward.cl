// delta_rule, backward. From dy and the forward's gates, (I + A)^-1, W, U and states, which are
// recomputed, chunk by chunk (delta_rule.cl has the forward and its letters; M = D Q K^T):
//   local    dU' = M^T dy
//   states   in reverse order, with dS' of the state after the chunk: dU = dU' + to_end K dS',
//            dS = P_last dS' + (P Q)^T dy - W^T dU
//   chunk    dR = (I + A)^-T dU;  dv = beta dR
//            m_ij = D_ij dy_i u_j for j <= i, a_ij = -D_ij dR_i u_j for j < i
//            dq = P dy S^T + m K
//            dk = beta kp + km, kp = a K - P dR S^T, km = m^T Q + a^T beta K + to_end U dS'^T
//            dbeta_i = dR_i v_i + k_i kp_i
//            dG_i = q_i dq_i + beta_i k_i kp_i - k_i km_i, of the last row also dS' times S'
//            dg_i = the sum of dG over the rows from i on of its document, in the chunk
//   scatter  the gradients of q' and k' through their L2 norms
// dq and dk of a key head are sums over its value heads, in their order.
// Shapes: dy [T, VALUE_HEADS VALUE_DIM]; dqkv of qkv's shape; da, db [T, VALUE_HEADS]; d_u, d_r
//   like u; d_states like states; d_q, d_k [KEY_HEADS, T_PAD, K_PAD]; d_q_part, kp, km like w;
//   scores_v like scores; partial [VALUE_HEADS, N, 2 CHUNK + K_PAD]
// Types: as in delta_rule.cl
// Work: local: a group per chunk and value head. states: a group per value head and SLICE columns.
//   chunk: a group per chunk and key head. scatter: a group per row
// Local: scatter: GROUP floats
// Cost: per row and value head about 2 CHUNK (5 K + 4 V) + 12 K V flops; reads and writes the scratch
// Numerics: sums in f32 in a fixed order
//! clc: build TYPE={f32,bf16} CHUNK=64 KEY_DIM=128 VALUE_DIM=128 KEY_HEADS=16 VALUE_HEADS=16 GROUP=128 LANES=4 SLICE=16
//! clc: budget on gfx90a registers<=192 spills=0
#include "recurrent/delta_rule_problem.clh"
#include "group_reduce.clh"

#ifndef SLICE
#error "SLICE: columns of the state that a group of delta_rule_backward_states owns"
#endif

INLINED void zero(lanes acc[ROWS]) {
  for (int r = 0; r < ROWS; ++r) acc[r] = 0.0f;
}

__attribute__((reqd_work_group_size(GROUP, 1, 1))) __kernel void delta_rule_backward_local(
    __global float* restrict d_u, __global float* restrict scores, __global const float* restrict q,
    __global const float* restrict k, __global const float* restrict d_y,
    __global const float* restrict gates, __global const int* restrict rows, int T, int T_pad) {
  const int chunk = (int)get_group_id(0), h = (int)get_group_id(1);
  const size_t row = (size_t)h * T_pad + chunk * CHUNK;
  const size_t key_row = (size_t)(h / PER_KEY_HEAD) * T_pad + chunk * CHUNK;
  scores += row * CHUNK;
  write_scores(scores, q + key_row * K_PAD, k + key_row * K_PAD, K_PAD, gates + row, rows, chunk, T);
  GROUP_SYNC();  // the scores are written
  EACH_OF_GROUP(tile, CHUNK / ROWS * (V_PAD / LANES)) {
    const int j0 = tile_row(tile, V_PAD), c0 = tile_column(tile, V_PAD);
    lanes acc[ROWS];
    zero(acc);
    add_product(acc, scores + j0 * CHUNK + j0, 1, CHUNK, d_y + (row + j0) * V_PAD + c0, V_PAD,
                CHUNK - j0);
    for (int r = 0; r < ROWS; ++r) STORE(acc[r], d_u + (row + j0 + r) * V_PAD + c0);
  }
}

__attribute__((reqd_work_group_size(GROUP, 1, 1))) __kernel void delta_rule_backward_states(
    __global float* restrict d_states, __global float* restrict d_u,
    __global const float* restrict q, __global const float* restrict k,
    __global const float* restrict w, __global const float* restrict d_y,
    __global const float* restrict gates, int T_pad) {
  const int s0 = (int)get_group_id(0) * SLICE, h = (int)get_group_id(1), N = T_pad / CHUNK;
  const size_t one = (size_t)VALUE_HEADS * T_pad;
  __global float* after = d_states + ((size_t)h * (N + 1) + N) * K_PAD * V_PAD + s0;
  EACH_OF_GROUP(e, K_PAD * SLICE) after[e / SLICE * V_PAD + e % SLICE] = 0.0f;
  for (int chunk = N - 1; chunk >= 0; --chunk, after -= K_PAD * V_PAD) {
    const size_t row = (size_t)h * T_pad + chunk * CHUNK;
    const size_t key_row = (size_t)(h / PER_KEY_HEAD) * T_pad + chunk * CHUNK;
    GROUP_SYNC();  // dS' is written
    EACH_OF_GROUP(tile, CHUNK / ROWS * (SLICE / LANES)) {
      const int i0 = tile_row(tile, SLICE), c0 = tile_column(tile, SLICE);
      lanes acc[ROWS];
      zero(acc);
      add_product(acc, k + (key_row + i0) * K_PAD, K_PAD, 1, after + c0, V_PAD, K_PAD);
      for (int r = 0; r < ROWS; ++r) {
        __global float* to = d_u + (row + i0 + r) * V_PAD + s0 + c0;
        STORE(LOAD(to) + gates[4 * one + row + i0 + r] * acc[r], to);
      }
    }
    GROUP_SYNC();  // dU is written
    const float carry = gates[2 * one + row + CHUNK - 1];
    EACH_OF_GROUP(tile, K_PAD / ROWS * (SLICE / LANES)) {
      const int d0 = tile_row(tile, SLICE), c0 = tile_column(tile, SLICE);
      lanes acc[ROWS], less[ROWS];
      zero(less);
      add_product(less, w + row * K_PAD + d0, 1, K_PAD, d_u + row * V_PAD + s0 + c0, V_PAD, CHUNK);
      for (int r = 0; r < ROWS; ++r) acc[r] = carry * LOAD(after + (d0 + r) * V_PAD + c0) - less[r];
      add_scaled_product(acc, q + key_row * K_PAD + d0, 1, K_PAD, gates + 2 * one + row,
                         d_y + row * V_PAD + s0 + c0, V_PAD, CHUNK);
      for (int r = 0; r < ROWS; ++r) STORE(acc[r], after - K_PAD * V_PAD + (d0 + r) * V_PAD + c0);
    }
  }
}

// out = scale_i factor x_i S^T of the chunk's rows, with S [K_PAD, V_PAD]: [CHUNK, K_PAD].
INLINED void write_rows_of_state(__global float* out, __global const float* x,
                                 __global const float* state,
                                 __global const float* scale, float factor) {
  EACH_OF_GROUP(tile, CHUNK / 4 * (K_PAD / 4)) {
    const int i0 = tile / (K_PAD / 4) * 4, d0 = tile % (K_PAD / 4) * 4;
    float products[16];
    dots(products, x + (size_t)i0 * V_PAD, V_PAD, state + d0 * V_PAD, V_PAD, V_PAD);
    for (int e = 0; e < 16; ++e) {
      out[(size_t)(i0 + e / 4) * K_PAD + d0 + e % 4] = scale[i0 + e / 4] * factor * products[e];
    }
  }
}

// out += x y [CHUNK, K_PAD], where x is lower triangular, with its rows or transposed; y is scaled
// by rows if `scale` is given.
INLINED void add_rows(__global float* out, __global const float* x,
                      bool transposed, __global const float* y,
                      __global const float* scale) {
  EACH_OF_GROUP(tile, CHUNK / ROWS * (K_PAD / LANES)) {
    const int i0 = tile_row(tile, K_PAD), c0 = tile_column(tile, K_PAD);
    lanes acc[ROWS];
    for (int r = 0; r < ROWS; ++r) acc[r] = LOAD(out + (size_t)(i0 + r) * K_PAD + c0);
    __global const float* from = y + (size_t)(transposed ? i0 : 0) * K_PAD + c0;
    if (!transposed) {
      add_product(acc, x + i0 * CHUNK, CHUNK, 1, from, K_PAD, i0 + ROWS);
    } else if (scale) {
      add_scaled_product(acc, x + i0 * CHUNK + i0, 1, CHUNK, scale + i0, from, K_PAD, CHUNK - i0);
    } else {
      add_product(acc, x + i0 * CHUNK + i0, 1, CHUNK, from, K_PAD, CHUNK - i0);
    }
    for (int r = 0; r < ROWS; ++r) STORE(acc[r], out + (size_t)(i0 + r) * K_PAD + c0);
  }
}

// da and db of the chunk's rows from dG and dbeta, by one item.
INLINED void write_gate_gradients(__global STORED(TYPE)* da,
                                  __global STORED(TYPE)* db,
                                  __global const STORED(TYPE)* a,
                                  __global const float* d_log_decay,
                                  __global const float* d_beta,
                                  __global const float* beta, float rate, float dt_bias,
                                  float of_last, __global const int* rows, int chunk,
                                  int h, int T) {
  float sum = of_last;
  for (int i = CHUNK - 1; i >= 0; --i) {
    const int t = chunk * CHUNK + i;
    sum += d_log_decay[i];
    if (t >= T) continue;
    const size_t at = (size_t)t * VALUE_HEADS + h;
    STORE_ONE(TYPE, da, at, sum * rate * sigmoid(LOAD_ONE(TYPE, a, at) + dt_bias));
    STORE_ONE(TYPE, db, at, d_beta[i] * beta[i] * (1.0f - beta[i]));
    if (rows[t] == t) sum = 0.0f;  // the rows before are of other documents
  }
}

__attribute__((reqd_work_group_size(GROUP, 1, 1))) __kernel void delta_rule_backward_chunk(
    __global STORED(TYPE)* restrict dqkv, __global STORED(TYPE)* restrict da,
    __global STORED(TYPE)* restrict db, __global float* restrict d_q, __global float* restrict d_k,
    __global float* restrict d_r, __global float* restrict d_q_part, __global float* restrict kp,
    __global float* restrict km, __global float* restrict scores, __global float* restrict scores_v,
    __global float* restrict partial, __global const STORED(TYPE)* restrict a,
    __global const float* restrict q, __global const float* restrict k,
    __global const float* restrict v, __global const float* restrict u,
    __global const float* restrict d_y, __global const float* restrict d_u,
    __global const float* restrict inverse, __global const float* restrict states,
    __global const float* restrict d_states, __global const float* restrict gates,
    __global const float* restrict rate, __global const float* restrict dt_bias,
    __global const int* restrict rows, int T, int T_pad) {
  const int chunk = (int)get_group_id(0), head = (int)get_group_id(1), N = T_pad / CHUNK;
  const size_t one = (size_t)VALUE_HEADS * T_pad;
  const size_t key_row = ((size_t)head * T_pad + chunk * CHUNK) * K_PAD;
  for (int h = head * PER_KEY_HEAD; h < (head + 1) * PER_KEY_HEAD; ++h) {
    const size_t row = (size_t)h * T_pad + chunk * CHUNK;
    const size_t at_k = row * K_PAD, at_v = row * V_PAD, at_c = row * CHUNK;
    const size_t state = ((size_t)h * (N + 1) + chunk) * K_PAD * V_PAD;
    __global const float* log_decay = gates + row;
    __global const float* beta = gates + one + row;
    EACH_OF_GROUP(tile, CHUNK / ROWS * (V_PAD / LANES)) {
      const int j0 = tile_row(tile, V_PAD), c0 = tile_column(tile, V_PAD);
      lanes acc[ROWS];
      zero(acc);
      add_product(acc, inverse + at_c + j0 * CHUNK + j0, 1, CHUNK, d_u + at_v + j0 * V_PAD + c0,
                  V_PAD, CHUNK - j0);
      for (int r = 0; r < ROWS; ++r) {
        STORE(acc[r], d_r + at_v + (j0 + r) * V_PAD + c0);
        const int t = chunk * CHUNK + j0 + r;
        float values[LANES];
        STORE(beta[j0 + r] * acc[r], values);
        for (int c = 0; c < LANES; ++c) {
          if (t < T && c0 + c < VALUE_DIM) {
            const size_t width = 2 * KEY_HEADS * KEY_DIM + VALUE_HEADS * VALUE_DIM;
            STORE_ONE(TYPE, dqkv,
                      t * width + 2 * KEY_HEADS * KEY_DIM + h * VALUE_DIM + c0 + c, values[c]);
          }
        }
      }
    }
    GROUP_SYNC();  // dR is written
    write_scores(scores + at_c, d_y + at_v, u + at_v, V_PAD, log_decay, rows, chunk, T);
    write_scores(scores_v + at_c, d_r + at_v, u + at_v, V_PAD, log_decay, rows, chunk, T);
    write_rows_of_state(d_q_part + at_k, d_y + at_v, states + state, gates + 2 * one + row, 1.0f);
    write_rows_of_state(kp + at_k, d_r + at_v, states + state, gates + 2 * one + row, -1.0f);
    write_rows_of_state(km + at_k, u + at_v, d_states + state + K_PAD * V_PAD,
                        gates + 4 * one + row, 1.0f);
    GROUP_SYNC();  // m, a without its sign and diagonal, and the terms with states are written
    EACH_OF_GROUP(i, CHUNK) {
      __global float* a_row = scores_v + at_c + i * CHUNK;
      for (int j = 0; j < CHUNK; ++j) a_row[j] = j < i ? -a_row[j] : 0.0f;
    }
    GROUP_SYNC();  // a is written
    add_rows(d_q_part + at_k, scores + at_c, false, k + key_row, 0);
    add_rows(kp + at_k, scores_v + at_c, false, k + key_row, 0);
    add_rows(km + at_k, scores + at_c, true, q + key_row, 0);
    add_rows(km + at_k, scores_v + at_c, true, k + key_row, beta);
    GROUP_SYNC();  // the rows of dq, kp and km are written
    __global float* d_log_decay = partial + (size_t)(h * N + chunk) * (2 * CHUNK + K_PAD);
    __global float* d_beta = d_log_decay + CHUNK;
    EACH_OF_GROUP(i, CHUNK) {
      const size_t at = i * K_PAD;
      const float with_kp = dot_of_rows(k + key_row + at, kp + at_k + at, K_PAD);
      d_beta[i] = dot_of_rows(d_r + at_v + i * V_PAD, v + at_v + i * V_PAD, V_PAD) + with_kp;
      d_log_decay[i] = dot_of_rows(q + key_row + at, d_q_part + at_k + at, K_PAD) +
                       beta[i] * with_kp - dot_of_rows(k + key_row + at, km + at_k + at, K_PAD);
      for (int c = 0; c < K_PAD; c += LANES) {
        __global float *to_q = d_q + key_row + at + c, *to_k = d_k + key_row + at + c;
        const lanes more_q = LOAD(d_q_part + at_k + at + c);
        const lanes more_k = beta[i] * LOAD(kp + at_k + at + c) + LOAD(km + at_k + at + c);
        const bool is_first = h == head * PER_KEY_HEAD;
        STORE(is_first ? more_q : LOAD(to_q) + more_q, to_q);
        STORE(is_first ? more_k : LOAD(to_k) + more_k, to_k);
      }
    }
    EACH_OF_GROUP(d, K_PAD) {
      const size_t at = state + (K_PAD + d) * V_PAD;
      d_beta[CHUNK + d] = dot_of_rows(states + at, d_states + at, V_PAD);
    }
    GROUP_SYNC();  // dG, dbeta and the products of states are written
    if (get_local_id(0) == 0) {
      float of_last = 0.0f;
      for (int d = 0; d < K_PAD; ++d) of_last += d_beta[CHUNK + d];
      write_gate_gradients(da, db, a, d_log_decay, d_beta, beta, rate[h], dt_bias[h], of_last, rows,
                           chunk, h, T);
    }
  }
}

// Columns [begin, begin + KEY_HEADS KEY_DIM) of dx = the gradient through scale x / sqrt(|x|^2 +
// epsilon) of d [KEY_HEADS, T_pad, K_PAD], for each head of each row.
__attribute__((reqd_work_group_size(GROUP, 1, 1))) __kernel void delta_rule_scatter(
    __global STORED(TYPE)* restrict dx, __global const float* restrict d,
    __global const STORED(TYPE)* restrict x, int T_pad, int begin, float scale) {
  __local float scratch[GROUP];
  const int t = (int)get_group_id(0);
  const size_t width = 2 * KEY_HEADS * KEY_DIM + VALUE_HEADS * VALUE_DIM;
  for (int head = (int)get_group_id(1); head < KEY_HEADS; head += (int)get_num_groups(1)) {
    const size_t to = t * width + begin + head * KEY_DIM;
    __global const float* from = d + ((size_t)head * T_pad + t) * K_PAD;
    float squares = 0.0f, product = 0.0f;
    EACH_OF_GROUP(i, KEY_DIM) {
      const float value = LOAD_ONE(TYPE, x, to + i);
      squares += value * value;
      product += value * from[i];
    }
    const float factor = rsqrt(group_sum(squares, scratch) + NORM_EPSILON);
    const float along = group_sum(product, scratch) * factor * factor;
    EACH_OF_GROUP(i, KEY_DIM) {
      const float value = scale * factor * (from[i] - along * LOAD_ONE(TYPE, x, to + i));
      STORE_ONE(TYPE, dx, to + i, value);
    }
  }
}
