// delta_rule_matrix: the gated delta rule, forward, on matrix units, in chunks of 64 rows
// (delta_rule.cl has the formulas, delta_rule_matrix.clh the layouts of the scratch).
//
//   chunk    inverse = (I + A)^-1, W = inverse beta P K, U' = inverse beta V
//   states   in order: U = U' - W S, S = P_last S + K^T to_end U
//   output   y = P Q S + (D Q K^T) U
// Shapes: y [T, VALUE_HEADS VALUE_DIM]; first [T] i32: the first row of each row's document
// Types: y f32, bf16 or f16 (-D TYPE); the scratch bf16, its gates f32
// Work: chunk, output: a group per chunk and value head. states: a group per value head and SLICE
//   columns of its state, which it holds in registers, over all chunks in order
// Local: chunk 64 (WIDE + 192) elements; states STAGES 128 K_PAD + (K_PAD + 64) SLICE; output 64
//   (K_PAD + 2 WIDE)
// Cost: per row and value head about 128 (3 K + 2 V) + 6 K V flops; reads and writes the scratch
// Numerics: operands of products are rounded to bf16, S too where it is one; sums, the states that
//   are carried on and the inverse are f32, in a fixed order
//! clc: build on mma: MMA_SYNC TYPE={f32,bf16} K_PAD=128 V_PAD=128 KEY_HEADS=16 VALUE_HEADS=16
//!     KEY_DIM=128 VALUE_DIM=128 SLICE=32 STAGES=2
//! clc: build MMA_SYNC EMULATED TYPE=f32 K_PAD=64 V_PAD=64 KEY_HEADS=1 VALUE_HEADS=2 KEY_DIM=48
//!     VALUE_DIM=40 SLICE=32 STAGES=2
#include "recurrent/delta_rule_matrix.clh"

// Inverts the diagonal 16 x 16 blocks of a, which have ones on their diagonals, an item for each
// column of them.
INLINED void invert_diagonal(__local float* a) {
  const uint item = get_local_id(0), column = item % 16;
  __local float* block = a + (item / 16 * CHUNK + item / 16) * 16;
  float x[16];
  if (item < CHUNK) {
    UNROLL
    for (uint i = 0; i < 16; ++i) {
      x[i] = i == column ? 1.0f : 0.0f;
      UNROLL
      for (uint m = 0; m < i; ++m) x[i] -= block[i * CHUNK + m] * x[m];
    }
  }
  barrier(CLK_LOCAL_MEM_FENCE);  // all blocks are read
  if (item < CHUNK) {
    UNROLL
    for (uint i = 0; i < 16; ++i) block[i * CHUNK + column] = x[i];
  }
  barrier(CLK_LOCAL_MEM_FENCE);  // the diagonal is inverted
}

// a = (I + a)^-1, where a is strictly lower triangular: by rows of blocks, X_ij = -X_ii sum of
// A_im X_mj. products: 16 x CHUNK floats.
INLINED void invert(__local float* a, __local float* products) {
  invert_diagonal(a);
  for (uint row = 16; row < CHUNK; row += 16) {
    const uint quads = row / 4;
    EACH_OF(e, 16 * quads) {
      const uint r = e / quads, column = e % quads * 4;
      float4 sum = 0.0f;
      for (uint m = column / 16 * 16; m < row; ++m) {
        sum += a[(row + r) * CHUNK + m] * vload4(0, a + m * CHUNK + column);
      }
      vstore4(sum, 0, products + r * CHUNK + column);
    }
    barrier(CLK_LOCAL_MEM_FENCE);  // the products of this row of blocks are written
    EACH_OF(e, 16 * quads) {
      const uint r = e / quads, column = e % quads * 4;
      float4 sum = 0.0f;
      for (uint m = 0; m < 16; ++m) {
        sum -= a[(row + r) * CHUNK + row + m] * vload4(0, products + m * CHUNK + column);
      }
      vstore4(sum, 0, a + (row + r) * CHUNK + column);
    }
    barrier(CLK_LOCAL_MEM_FENCE);  // this row of blocks is inverted
  }
}

INLINED uint4 rounded(float8 x) {
  return (uint4)(bf16_pair(x.s0, x.s1), bf16_pair(x.s2, x.s3), bf16_pair(x.s4, x.s5),
                 bf16_pair(x.s6, x.s7));
}

// Stores the inverse, and replaces it by two tiles in its place: its columns times beta, and times
// beta carry.
INLINED void split_inverse(__global ushort* inverse, __local uchar* solved,
                           __local const ChunkGates* gates) {
#define SHARE (CHUNK * CHUNK / 8 / ITEMS)
  uint4 with_beta[SHARE], with_carry[SHARE];
  UNROLL
  for (uint n = 0; n < SHARE; ++n) {
    const uint i = n * ITEMS + get_local_id(0), column = i % 8 * 8;
    const float8 x = vload8(0, (__local float*)solved + i / 8 * CHUNK + column);
    const float8 scaled = x * vload8(0, gates->beta + column);
    *(__global uint4*)(inverse + i * 8) = rounded(x);
    with_beta[n] = rounded(scaled);
    with_carry[n] = rounded(scaled * vload8(0, gates->carry + column));
  }
  barrier(CLK_LOCAL_MEM_FENCE);  // the inverse is read
  UNROLL
  for (uint n = 0; n < SHARE; ++n) {
    const uint i = n * ITEMS + get_local_id(0);
    __local uchar* to = solved + tile_at(i / 8, i % 8, 8);
    *(__local uint4*)to = with_beta[n];
    *(__local uint4*)(to + TILE(CHUNK, CHUNK)) = with_carry[n];
  }
}

// out [CHUNK, width] = the left tile times the right one.
INLINED void write_product(MatrixUnit unit, __global ushort* out, LocalAt left, LocalAt right,
                           uint width, uint row) {
  for (uint column = 0; column < width; column += 64) {
    Sums sums[BLOCKS];
    clear(sums, BLOCKS);
    add_product(unit, sums, left, row, 0, 8, CHUNK / 16, right, column, CHUNKS_OF(width), BLOCKS);
    store_sums(unit, out + (size_t)row * width + column, width, sums, BLOCKS);
  }
}

GROUP_OF_ITEMS __kernel void delta_rule_matrix_chunk(
    __global ushort* w, __global ushort* u, __global ushort* inverse, __global const ushort* k,
    __global const ushort* v, __global const float* gates, __global const int* first, int T,
    int T_pad) {
  MATRIX_UNIT(unit, SUBGROUPS);
  __local uchar rows[TILE(CHUNK, WIDE)] ALIGNED_TILE;
  __local uchar solved[2 * TILE(CHUNK, CHUNK)] ALIGNED_TILE;
  __local float products[16 * CHUNK];
  __local ChunkGates chunk_gates;
  const int t0 = (int)get_group_id(0) * CHUNK, h = (int)get_group_id(1);
  const uint row = get_local_id(0) / LANES * 16;
  const size_t at = (size_t)h * T_pad + t0;
  const LocalAt tile = local_at(rows), left = local_at(solved);
  stage_rows(tile, k + ((size_t)(h / PER_KEY_HEAD) * T_pad + t0) * K_PAD, K_PAD, CHUNK, K_CHUNKS);
  load_gates(&chunk_gates, gates + at, (size_t)VALUE_HEADS * T_pad, first, t0, T);
  arrive();
  Sums sums[BLOCKS];
  clear(sums, BLOCKS);
  add_dots(unit, sums, tile, row, tile, 0, K_CHUNKS, BLOCKS);
  decay_sums(unit, sums, &chunk_gates, row, false);
  scale_rows(unit, sums, BLOCKS, chunk_gates.beta, row);
  __local float* a = (__local float*)solved;
  UNROLL
  for (uint c = 0; c < BLOCKS; ++c) {
    EACH_SUM(i, j) {
      const uint r = row + sum_row(unit, i), column = 16 * c + sum_column(unit, j);
      a[r * CHUNK + column] = column < r ? sums[c].v[i][j] : 0.0f;
    }
  }
  barrier(CLK_LOCAL_MEM_FENCE);  // A is written
  invert(a, products);
  split_inverse(inverse + at * CHUNK, solved, &chunk_gates);
  barrier(CLK_LOCAL_MEM_FENCE);  // the tiles of the inverse are written
  write_product(unit, w + at * K_PAD, left + TILE(CHUNK, CHUNK), tile, K_PAD, row);
  barrier(CLK_LOCAL_MEM_FENCE);  // k is read
  stage_rows(tile, v + at * V_PAD, V_PAD, CHUNK, V_CHUNKS);
  arrive();
  write_product(unit, u + at * V_PAD, left, tile, V_PAD, row);
}

// A stage of the ring of delta_rule_matrix_states: w, k, a slice of U' = `before` and gates of a
// chunk.
#define U_AT (2 * TILE(CHUNK, K_PAD))
#define GATES_AT (U_AT + TILE(CHUNK, SLICE))
#define STAGE_BYTES (GATES_AT + STAGED_GATES)

GROUP_OF_ITEMS __kernel void delta_rule_matrix_states(
    __global ushort* states, __global ushort* u, __global const ushort* before,
    __global const ushort* w, __global const ushort* k, __global const float* gates, int T_pad) {
  MATRIX_UNIT(unit, SUBGROUPS);
  __local uchar ring[STAGES * STAGE_BYTES] ALIGNED_TILE;
  __local uchar s_tile[TILE(K_PAD, SLICE)] ALIGNED_TILE;
  __local uchar u_tile[TILE(CHUNK, SLICE)] ALIGNED_TILE;
  const int s0 = (int)get_group_id(0) * SLICE, h = (int)get_group_id(1), N = T_pad / CHUNK;
  const uint row = get_local_id(0) / LANES * 16, state_row = row * STATE_BLOCKS;
  const size_t one = (size_t)VALUE_HEADS * T_pad;
  const LocalAt stages = local_at(ring);
  gates += (size_t)h * T_pad;
  k += (size_t)(h / PER_KEY_HEAD) * T_pad * K_PAD;
  w += (size_t)h * T_pad * K_PAD;
  u += (size_t)h * T_pad * V_PAD + s0;
  before += (size_t)h * T_pad * V_PAD + s0;
  states += ((size_t)h * (N + 1) * K_PAD + state_row) * V_PAD + s0;
// After the last chunk, that one again: no stage depends on a condition.
#define STAGE_NTH(n)                                                         \
  do {                                                                       \
    const LocalAt to = stages + (n) % STAGES * STAGE_BYTES;                  \
    const size_t from = (size_t)min(n, N - 1) * CHUNK;                       \
    stage_again(to, w + from * K_PAD, K_PAD, K_CHUNKS);                      \
    stage_again(to + TILE(CHUNK, K_PAD), k + from * K_PAD, K_PAD, K_CHUNKS); \
    stage_again(to + U_AT, before + from * V_PAD, V_PAD, CHUNKS_OF(SLICE));  \
    stage_gates(to + GATES_AT, gates + from, one);                           \
    STAGE_COMMIT;                                                            \
  } while (0)
  for (int n = 0; n < STAGES - 1; ++n) {
    STAGE_NTH(n);
  }
  Sums s[STATE_BLOCKS][SLICE_BLOCKS];
  UNROLL
  for (uint b = 0; b < STATE_BLOCKS; ++b) clear(s[b], SLICE_BLOCKS);
  for (int n = 0; n < N; ++n) {
    store_state(unit, states, s_tile, (const Sums(*)[SLICE_BLOCKS])s, state_row);
    states += K_PAD * V_PAD;
    WAIT_FOR_STAGE;
    barrier(CLK_LOCAL_MEM_FENCE);  // S is written, the stage has arrived, and the one before is free
    STAGE_NTH(n + STAGES - 1);
    const uint stage = n % STAGES * STAGE_BYTES;
    __local const float* stage_gates = (__local const float*)(ring + stage + GATES_AT);
    Sums recalled[SLICE_BLOCKS];
    clear(recalled, SLICE_BLOCKS);
    add_state_product(unit, recalled, stages + stage, row, local_at(s_tile));
    UNROLL
    for (uint c = 0; c < SLICE_BLOCKS; ++c) {
      Sums value;
      get_sums(unit, &value, ring + stage + U_AT, row, 16 * c, CHUNKS_OF(SLICE));
      EACH_SUM(i, j) recalled[c].v[i][j] = value.v[i][j] - recalled[c].v[i][j];
    }
    store_sums(unit, u + ((size_t)n * CHUNK + row) * V_PAD, V_PAD, recalled, SLICE_BLOCKS);
    scale_rows(unit, recalled, SLICE_BLOCKS, stage_gates, row);
    put_slice(unit, u_tile, recalled, row);
    scale_state(s, stage_gates[STAGED_CARRY + CHUNK - 1]);
    barrier(CLK_LOCAL_MEM_FENCE);  // U is written, and S is read
    add_to_state(unit, s, stages + stage + TILE(CHUNK, K_PAD), state_row, local_at(u_tile));
  }
  UNROLL
  for (uint b = 0; b < STATE_BLOCKS; ++b) {
    store_sums(unit, states + (size_t)16 * b * V_PAD, V_PAD, s[b], SLICE_BLOCKS);
  }
}

GROUP_OF_ITEMS __kernel void delta_rule_matrix_output(
    __global STORED(TYPE)* y, __global const ushort* q, __global const ushort* k,
    __global const ushort* u, __global const ushort* states, __global const float* gates,
    __global const int* first, int T, int T_pad) {
  MATRIX_UNIT(unit, SUBGROUPS);
  __local uchar tiles[TILE(CHUNK, K_PAD) + 2 * TILE(CHUNK, WIDE)] ALIGNED_TILE;
  __local ChunkGates chunk_gates;
  const int n = (int)get_group_id(0), t0 = n * CHUNK, h = (int)get_group_id(1), N = T_pad / CHUNK;
  const uint row = get_local_id(0) / LANES * 16;
  const size_t at = (size_t)h * T_pad + t0, key_at = (size_t)(h / PER_KEY_HEAD) * T_pad + t0;
  const LocalAt q_tile = local_at(tiles), other = q_tile + TILE(CHUNK, K_PAD),
                state = other + TILE(CHUNK, WIDE);
  stage_rows(q_tile, q + key_at * K_PAD, K_PAD, CHUNK, K_CHUNKS);
  stage_rows(other, k + key_at * K_PAD, K_PAD, CHUNK, K_CHUNKS);
  states += ((size_t)h * (N + 1) + n) * K_PAD * V_PAD;
  stage_rows(state, states, V_PAD, 64, V_CHUNKS);
  load_gates(&chunk_gates, gates + at, (size_t)VALUE_HEADS * T_pad, first, t0, T);
  arrive();
  Sums scores[BLOCKS], out[V_PAD / 16];
  clear(scores, BLOCKS);
  add_dots(unit, scores, q_tile, row, other, 0, K_CHUNKS, BLOCKS);
  decay_sums(unit, scores, &chunk_gates, row, false);
  Left weights[BLOCKS];
  lefts_of_sums(unit, weights, scores, BLOCKS);
  barrier(CLK_LOCAL_MEM_FENCE);  // k is read
  stage_rows(other, u + at * V_PAD, V_PAD, CHUNK, V_CHUNKS);
  STAGE_COMMIT;
  clear(out, V_PAD / 16);
  for (uint d = 0; d < K_PAD; d += 64) {
    add_product(unit, out, q_tile, row, d, K_CHUNKS, 4, state, 0, V_CHUNKS, V_PAD / 16);
    barrier(CLK_LOCAL_MEM_FENCE);  // these rows of the state are read
    if (d + 64 < K_PAD) {
      stage_rows(state, states + (size_t)(d + 64) * V_PAD, V_PAD, 64, V_CHUNKS);
    }
    arrive();
  }
  scale_rows(unit, out, V_PAD / 16, chunk_gates.carry, row);
  add_left_product(unit, out, weights, CHUNK / 16, other, 0, V_CHUNKS, V_PAD / 16);
  UNROLL
  for (uint i = 0; i < SUM_ROWS; ++i) {
    const int t = t0 + (int)(row + sum_row(unit, i));
    __global STORED(TYPE)* to = y + ((size_t)t * VALUE_HEADS + h) * VALUE_DIM;
    UNROLL
    for (uint c = 0; c < V_PAD / 16; ++c) {
      const int left = t < T ? VALUE_DIM - 16 * (int)c : 0;
      JOINED(store_row_, TYPE)(unit, to + 16 * c, out[c].v[i], (uint)max(left, 0));
    }
  }
}
