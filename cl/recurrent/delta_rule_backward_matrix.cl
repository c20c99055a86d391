// delta_rule_backward_matrix: the gated delta rule, backward, on matrix units, in chunks of 64 rows
// (delta_rule_backward.cl has the formulas, delta_rule_matrix.clh the layouts of the scratch).
//
//   local    dU' = M^T dy, P dy
//   states   in reverse order: dU = dU' + to_end K dS', dS = P_last dS' + Q^T P dy - W^T dU
//   chunk    dv, da, db, and the parts of dq and dk of each value head
// Shapes: dqkv of qkv's shape; da, db, a [T, VALUE_HEADS]; rate, dt_bias [VALUE_HEADS]; carry_dy like
//   dy
// Types: dqkv, da, db, a f32, bf16 or f16 (-D TYPE); carry_dy bf16; rate, dt_bias f32
// Work: local, chunk: a group per chunk and value head. states: a group per value head and SLICE
//   columns of its state, which it holds in registers, over all chunks in reverse order
// Local: local 64 (2 K_PAD + V_PAD) elements; states STAGES 64 (3 K_PAD + SLICE) + (K_PAD + 64) SLICE;
//   chunk 64 (3 V_PAD + 256)
// Cost: per row and value head about 128 (5 K + 4 V) + 12 K V flops; reads and writes the scratch
// Numerics: as the forward. k dk_m = k dk - beta k kp, so that dG needs no separate kp and km
//! clc: build on mma: MMA_SYNC TYPE={f32,bf16} K_PAD=128 V_PAD=128 KEY_HEADS=16 VALUE_HEADS=16
//!     KEY_DIM=128 VALUE_DIM=128 SLICE=32 STAGES=2
//! clc: build MMA_SYNC EMULATED TYPE=f32 K_PAD=64 V_PAD=64 KEY_HEADS=1 VALUE_HEADS=2 KEY_DIM=48
//!     VALUE_DIM=40 SLICE=32 STAGES=2
#include "recurrent/delta_rule_matrix.clh"
#include "recurrent/delta_rule_formulas.clh"

GROUP_OF_ITEMS __kernel void delta_rule_matrix_local(
    __global ushort* du, __global ushort* carry_dy, __global const ushort* q,
    __global const ushort* k, __global const ushort* dy, __global const float* gates,
    __global const int* first, int T, int T_pad) {
  MATRIX_UNIT(unit, SUBGROUPS);
  __local uchar tiles[2 * TILE(CHUNK, K_PAD) + TILE(CHUNK, V_PAD)] ALIGNED_TILE;
  __local ChunkGates chunk_gates;
  const int t0 = (int)get_group_id(0) * CHUNK, h = (int)get_group_id(1);
  const uint row = get_local_id(0) / LANES * 16;
  const size_t at = (size_t)h * T_pad + t0, key_at = (size_t)(h / PER_KEY_HEAD) * T_pad + t0;
  const LocalAt q_tile = local_at(tiles), k_tile = q_tile + TILE(CHUNK, K_PAD),
                dy_tile = k_tile + TILE(CHUNK, K_PAD);
  stage_rows(q_tile, q + key_at * K_PAD, K_PAD, CHUNK, K_CHUNKS);
  stage_rows(k_tile, k + key_at * K_PAD, K_PAD, CHUNK, K_CHUNKS);
  stage_rows(dy_tile, dy + at * V_PAD, V_PAD, CHUNK, V_CHUNKS);
  load_gates(&chunk_gates, gates + at, (size_t)VALUE_HEADS * T_pad, first, t0, T);
  arrive();
  Sums scores[BLOCKS], out[V_PAD / 16], scaled[V_PAD / 16];
  clear(scores, BLOCKS);
  add_dots(unit, scores, k_tile, row, q_tile, 0, K_CHUNKS, BLOCKS);
  decay_sums(unit, scores, &chunk_gates, row, true);
  Left weights[BLOCKS];
  lefts_of_sums(unit, weights, scores, BLOCKS);
  clear(out, V_PAD / 16);
  add_left_product(unit, out, weights, CHUNK / 16, dy_tile, 0, V_CHUNKS, V_PAD / 16);
  store_sums(unit, du + (at + row) * V_PAD, V_PAD, out, V_PAD / 16);
  load_sums(unit, scaled, dy + (at + row) * V_PAD, V_PAD, V_PAD / 16);
  scale_rows(unit, scaled, V_PAD / 16, chunk_gates.carry, row);
  store_sums(unit, carry_dy + (at + row) * V_PAD, V_PAD, scaled, V_PAD / 16);
}

// A stage of the ring of delta_rule_matrix_backward_states: k, q, w, slices of carry_dy and of dU'
// = `before`, and gates of a chunk.
#define DY_AT (3 * TILE(CHUNK, K_PAD))
#define DU_AT (DY_AT + TILE(CHUNK, SLICE))
#define GATES_AT (DU_AT + TILE(CHUNK, SLICE))
#define STAGE_BYTES (GATES_AT + STAGED_GATES)

GROUP_OF_ITEMS __kernel void delta_rule_matrix_backward_states(
    __global ushort* d_states, __global ushort* du, __global const ushort* before,
    __global const ushort* q, __global const ushort* k, __global const ushort* w,
    __global const ushort* carry_dy, __global const float* gates, int T_pad) {
  MATRIX_UNIT(unit, SUBGROUPS);
  __local uchar ring[STAGES * STAGE_BYTES] ALIGNED_TILE;
  __local uchar s_tile[TILE(K_PAD, SLICE)] ALIGNED_TILE;
  __local uchar u_tile[TILE(CHUNK, SLICE)] ALIGNED_TILE;
  const int s0 = (int)get_group_id(0) * SLICE, h = (int)get_group_id(1), N = T_pad / CHUNK;
  const uint row = get_local_id(0) / LANES * 16, state_row = row * STATE_BLOCKS;
  const size_t one = (size_t)VALUE_HEADS * T_pad;
  const LocalAt stages = local_at(ring);
  gates += (size_t)h * T_pad;
  q += (size_t)(h / PER_KEY_HEAD) * T_pad * K_PAD;
  k += (size_t)(h / PER_KEY_HEAD) * T_pad * K_PAD;
  w += (size_t)h * T_pad * K_PAD;
  carry_dy += (size_t)h * T_pad * V_PAD + s0;
  du += (size_t)h * T_pad * V_PAD + s0;
  before += (size_t)h * T_pad * V_PAD + s0;
  d_states += ((size_t)h * N * K_PAD + state_row) * V_PAD + s0;
// The n-th chunk from the end; after the first chunk, that one again.
#define STAGE_NTH(n)                                                             \
  do {                                                                           \
    const LocalAt to = stages + (n) % STAGES * STAGE_BYTES;                      \
    const size_t from = (size_t)max(N - 1 - (n), 0) * CHUNK;                     \
    stage_again(to, k + from * K_PAD, K_PAD, K_CHUNKS);                          \
    stage_again(to + TILE(CHUNK, K_PAD), q + from * K_PAD, K_PAD, K_CHUNKS);     \
    stage_again(to + 2 * TILE(CHUNK, K_PAD), w + from * K_PAD, K_PAD, K_CHUNKS); \
    stage_again(to + DY_AT, carry_dy + from * V_PAD, V_PAD, CHUNKS_OF(SLICE));   \
    stage_again(to + DU_AT, before + from * V_PAD, V_PAD, CHUNKS_OF(SLICE));     \
    stage_gates(to + GATES_AT, gates + from, one);                               \
    STAGE_COMMIT;                                                                \
  } while (0)
  for (int n = 0; n < STAGES - 1; ++n) {
    STAGE_NTH(n);
  }
  Sums ds[STATE_BLOCKS][SLICE_BLOCKS];
  UNROLL
  for (uint b = 0; b < STATE_BLOCKS; ++b) clear(ds[b], SLICE_BLOCKS);
  for (int n = 0; n < N; ++n) {
    const size_t chunk = N - 1 - n;
    store_state(unit, d_states + chunk * K_PAD * V_PAD, s_tile, (const Sums(*)[SLICE_BLOCKS])ds, state_row);
    WAIT_FOR_STAGE;
    barrier(CLK_LOCAL_MEM_FENCE);  // dS' is written, the stage has arrived, the one before is free
    STAGE_NTH(n + STAGES - 1);
    const uint stage = n % STAGES * STAGE_BYTES;
    __local const float* stage_gates = (__local const float*)(ring + stage + GATES_AT);
    Sums more[SLICE_BLOCKS];
    clear(more, SLICE_BLOCKS);
    add_state_product(unit, more, stages + stage, row, local_at(s_tile));
    scale_rows(unit, more, SLICE_BLOCKS, stage_gates, row);
    UNROLL
    for (uint c = 0; c < SLICE_BLOCKS; ++c) {
      Sums local_du;
      get_sums(unit, &local_du, ring + stage + DU_AT, row, 16 * c, CHUNKS_OF(SLICE));
      EACH_SUM(i, j) more[c].v[i][j] += local_du.v[i][j];
    }
    store_sums(unit, du + (chunk * CHUNK + row) * V_PAD, V_PAD, more, SLICE_BLOCKS);
    UNROLL
    for (uint c = 0; c < SLICE_BLOCKS; ++c) {
      EACH_SUM(i, j) more[c].v[i][j] = -more[c].v[i][j];
    }
    put_slice(unit, u_tile, more, row);
    scale_state(ds, stage_gates[STAGED_CARRY + CHUNK - 1]);
    add_to_state(unit, ds, stages + stage + TILE(CHUNK, K_PAD), state_row, stages + stage + DY_AT);
    barrier(CLK_LOCAL_MEM_FENCE);  // -dU is written, and dS' is read
    add_to_state(unit, ds, stages + stage + 2 * TILE(CHUNK, K_PAD), state_row, local_at(u_tile));
  }
}

// The sums over the columns of x y, of rows from `row` on, added to out.
INLINED void add_row_products(MatrixUnit unit, __local float* out, const Sums* x, const Sums* y,
                              uint count, uint row) {
  UNROLL
  for (uint i = 0; i < SUM_ROWS; ++i) {
    float sum = 0.0f;
    UNROLL
    for (uint c = 0; c < count; ++c) {
      UNROLL
      for (uint j = 0; j < SUM_COLUMNS; ++j) sum += x[c].v[i][j] * y[c].v[i][j];
    }
    sum = row_sum(unit, sum);
    if (sum_column(unit, 0) < SUM_RUN) out[row + sum_row(unit, i)] += sum;
  }
}

// dS' S', summed by items: out [ITEMS].
INLINED void add_state_products(__local float* out, __global const ushort* x,
                                __global const ushort* y) {
  float sum = 0.0f;
  EACH_OF(i, K_PAD * V_PAD / 8) {
    const uint4 a = *(__global const uint4*)(x + i * 8), b = *(__global const uint4*)(y + i * 8);
    const float4 low = as_float4(a << 16) * as_float4(b << 16);
    const float4 high = as_float4(a & 0xffff0000u) * as_float4(b & 0xffff0000u);
    const float4 both = low + high;
    sum += (both.x + both.y) + (both.z + both.w);
  }
  out[get_local_id(0)] = sum;
}

// The sums over the columns, of rows, of what dG and dbeta are made of.
typedef struct {
  float q_dq[CHUNK], k_kp[CHUNK], k_dk[CHUNK], v_dr[CHUNK], d_log_decay[CHUNK];
} RowProducts;

// da and db of the chunk's rows. of_last: the part of dG of the last row that is dS' S'.
INLINED void write_gate_gradients(__global STORED(TYPE)* da, __global STORED(TYPE)* db,
                                  __global const STORED(TYPE)* a, __local RowProducts* of,
                                  __local const ChunkGates* gates, float rate, float dt_bias,
                                  __local const float* of_last, int t0, int h, int T) {
  // beta k kp - k km, with k km = k dk - beta k kp
  EACH_OF(i, CHUNK) {
    of->d_log_decay[i] = of->q_dq[i] + 2.0f * gates->beta[i] * of->k_kp[i] - of->k_dk[i];
  }
  barrier(CLK_LOCAL_MEM_FENCE);  // dG is written
  EACH_OF(i, CHUNK) {
    const int t = t0 + (int)i;
    if (t >= T) continue;
    float sum = 0.0f;
    if (gates->document[CHUNK - 1] <= (int)i) {
      for (uint n = 0; n < ITEMS; ++n) sum += of_last[n];
    }
    for (uint j = i; j < CHUNK; ++j) {
      if (gates->document[j] <= (int)i) sum += of->d_log_decay[j];
    }
    const size_t at = (size_t)t * VALUE_HEADS + h;
    const float beta = gates->beta[i];
    STORE_ONE(TYPE, da, at, sum * rate * sigmoid(LOAD_ONE(TYPE, a, at) + dt_bias));
    STORE_ONE(TYPE, db, at, (of->v_dr[i] + of->k_kp[i]) * beta * (1.0f - beta));
  }
}

GROUP_OF_ITEMS __kernel void delta_rule_matrix_backward_chunk(
    __global STORED(TYPE)* dqkv, __global STORED(TYPE)* da, __global STORED(TYPE)* db,
    __global ushort* dq, __global ushort* dk, __global const STORED(TYPE)* a_in,
    __global const ushort* q, __global const ushort* k, __global const ushort* v,
    __global const ushort* u, __global const ushort* dy, __global const ushort* du,
    __global const ushort* inverse, __global const ushort* states,
    __global const ushort* d_states, __global const float* gates, __global const float* rate,
    __global const float* dt_bias, __global const int* first, int T, int T_pad) {
  MATRIX_UNIT(unit, SUBGROUPS);
  __local uchar wide[3 * TILE(CHUNK, V_PAD)] ALIGNED_TILE;
  __local uchar square[4 * TILE(CHUNK, CHUNK)] ALIGNED_TILE;
  __local ChunkGates chunk_gates;
  __local RowProducts of_rows;
  __local float of_last[ITEMS];
  const int n = (int)get_group_id(0), t0 = n * CHUNK, h = (int)get_group_id(1), N = T_pad / CHUNK;
  const uint row = get_local_id(0) / LANES * 16;
  const size_t at = (size_t)h * T_pad + t0, key_at = (size_t)(h / PER_KEY_HEAD) * T_pad + t0;
  const LocalAt state = local_at(wide), u_tile = state + TILE(CHUNK, V_PAD),
                dy_tile = u_tile + TILE(CHUNK, V_PAD);
  const LocalAt m_tile = local_at(square), a_tile = m_tile + TILE(CHUNK, CHUNK),
                k_tile = a_tile + TILE(CHUNK, CHUNK), q_tile = k_tile + TILE(CHUNK, CHUNK);
  states += ((size_t)h * (N + 1) + n) * K_PAD * V_PAD;
  d_states += ((size_t)h * N + n) * K_PAD * V_PAD;
  stage_rows(state, du + at * V_PAD, V_PAD, CHUNK, V_CHUNKS);
  stage_rows(m_tile, inverse + at * CHUNK, CHUNK, CHUNK, 8);
  STAGE_COMMIT;
  stage_rows(u_tile, u + at * V_PAD, V_PAD, CHUNK, V_CHUNKS);
  stage_rows(dy_tile, dy + at * V_PAD, V_PAD, CHUNK, V_CHUNKS);
  load_gates(&chunk_gates, gates + at, (size_t)VALUE_HEADS * T_pad, first, t0, T);
  EACH_OF(i, CHUNK) of_rows.q_dq[i] = of_rows.k_kp[i] = of_rows.k_dk[i] = of_rows.v_dr[i] = 0.0f;
  add_state_products(of_last, d_states, states + K_PAD * V_PAD);
  arrive();

  // dR, dv
  Left dr[V_PAD / 16];
  UNROLL
  for (uint column = 0; column < V_PAD; column += 64) {
    Sums sums[BLOCKS], values[BLOCKS];
    clear(sums, BLOCKS);
    add_transposed_product(unit, sums, m_tile, row, 8, state, column, V_CHUNKS, BLOCKS);
    lefts_of_sums(unit, dr + column / 16, sums, BLOCKS);
    load_sums(unit, values, v + (at + row) * V_PAD + column, V_PAD, BLOCKS);
    add_row_products(unit, of_rows.v_dr, sums, values, BLOCKS, row);
    scale_rows(unit, sums, BLOCKS, chunk_gates.beta, row);
    UNROLL
    for (uint i = 0; i < SUM_ROWS; ++i) {
      const int t = t0 + (int)(row + sum_row(unit, i));
      const size_t width = 2 * KEY_HEADS * KEY_DIM + VALUE_HEADS * VALUE_DIM;
      __global STORED(TYPE)* to =
          dqkv + t * width + 2 * KEY_HEADS * KEY_DIM + h * VALUE_DIM + column;
      UNROLL
      for (uint c = 0; c < BLOCKS; ++c) {
        const int left = t < T ? VALUE_DIM - (int)(column + 16 * c) : 0;
        JOINED(store_row_, TYPE)(unit, to + 16 * c, sums[c].v[i], (uint)max(left, 0));
      }
    }
  }
  // m and a, as left operands and transposed in tiles
  Left m[BLOCKS], a[BLOCKS];
  barrier(CLK_LOCAL_MEM_FENCE);  // dU and the inverse are read
  {
    Sums sums[BLOCKS];
    clear(sums, BLOCKS);
    add_dots(unit, sums, dy_tile, row, u_tile, 0, V_CHUNKS, BLOCKS);
    decay_sums(unit, sums, &chunk_gates, row, false);
    lefts_of_sums(unit, m, sums, BLOCKS);
    UNROLL
    for (uint c = 0; c < BLOCKS; ++c) put_sums(unit, square, &sums[c], row, 16 * c, 8);
    clear(sums, BLOCKS);
    add_left_dots(unit, sums, dr, u_tile, 0, V_PAD / 16);
    decay_sums(unit, sums, &chunk_gates, row, false);
    UNROLL
    for (uint c = 0; c < BLOCKS; ++c) {
      EACH_SUM(i, j) {
        const bool before = 16 * c + sum_column(unit, j) < row + sum_row(unit, i);
        sums[c].v[i][j] = before ? -sums[c].v[i][j] : 0.0f;
      }
    }
    lefts_of_sums(unit, a, sums, BLOCKS);
    scale_rows(unit, sums, BLOCKS, chunk_gates.beta, row);
    UNROLL
    for (uint c = 0; c < BLOCKS; ++c) {
      put_sums(unit, square + TILE(CHUNK, CHUNK), &sums[c], row, 16 * c, 8);
    }
  }
  // dq, kp and dk of 64 elements at a time
  for (uint d = 0; d < K_PAD; d += 64) {
    barrier(CLK_LOCAL_MEM_FENCE);  // the tiles of the elements before are read
    stage_rows(state, states + (size_t)d * V_PAD, V_PAD, 64, V_CHUNKS);
    stage_rows(k_tile, k + key_at * K_PAD + d, K_PAD, CHUNK, 8);
    stage_rows(q_tile, q + key_at * K_PAD + d, K_PAD, CHUNK, 8);
    arrive();
    const size_t to = (at + row) * K_PAD + d, key_to = (key_at + row) * K_PAD + d;
    Sums sums[BLOCKS], other[BLOCKS], kp[BLOCKS];
    clear(sums, BLOCKS);
    add_dots(unit, sums, dy_tile, row, state, 0, V_CHUNKS, BLOCKS);
    scale_rows(unit, sums, BLOCKS, chunk_gates.carry, row);
    add_left_product(unit, sums, m, CHUNK / 16, k_tile, 0, 8, BLOCKS);
    store_sums(unit, dq + to, K_PAD, sums, BLOCKS);
    load_sums(unit, other, q + key_to, K_PAD, BLOCKS);
    add_row_products(unit, of_rows.q_dq, sums, other, BLOCKS, row);
    clear(kp, BLOCKS);
    add_left_dots(unit, kp, dr, state, 0, V_PAD / 16);
    barrier(CLK_LOCAL_MEM_FENCE);  // the state is read
    stage_rows(state, d_states + (size_t)d * V_PAD, V_PAD, 64, V_CHUNKS);
    STAGE_COMMIT;
    scale_rows(unit, kp, BLOCKS, chunk_gates.carry, row);
    UNROLL
    for (uint c = 0; c < BLOCKS; ++c) {
      EACH_SUM(i, j) kp[c].v[i][j] = -kp[c].v[i][j];
    }
    add_left_product(unit, kp, a, CHUNK / 16, k_tile, 0, 8, BLOCKS);
    load_sums(unit, other, k + key_to, K_PAD, BLOCKS);
    add_row_products(unit, of_rows.k_kp, kp, other, BLOCKS, row);
    scale_rows(unit, kp, BLOCKS, chunk_gates.beta, row);
    arrive();
    clear(sums, BLOCKS);
    add_dots(unit, sums, u_tile, row, state, 0, V_CHUNKS, BLOCKS);
    scale_rows(unit, sums, BLOCKS, chunk_gates.to_end, row);
    add_transposed_product(unit, sums, m_tile, row, 8, q_tile, 0, 8, BLOCKS);
    add_transposed_product(unit, sums, a_tile, row, 8, k_tile, 0, 8, BLOCKS);
    UNROLL
    for (uint c = 0; c < BLOCKS; ++c) {
      EACH_SUM(i, j) sums[c].v[i][j] += kp[c].v[i][j];
    }
    store_sums(unit, dk + to, K_PAD, sums, BLOCKS);
    add_row_products(unit, of_rows.k_dk, sums, other, BLOCKS, row);
  }
  barrier(CLK_LOCAL_MEM_FENCE);  // the products of rows are written
  write_gate_gradients(da, db, a_in, &of_rows, &chunk_gates, rate[h], dt_bias[h], of_last, t0, h, T);
}
