// decode_layers, portable: one row through the blocks of a transformer, with a launch for each
// group of ops between which all work-groups must wait. In order, for each layer:
//
//   decode_heads      h = rms_norm(x);  q, k, v = h w^T + bias;  q, k rotated;  k, v to the cache
//   decode_head_norms q, k normalised and then rotated, if the model has norms of heads
//   (attention_decode.cl)                y = attention(q, keys, values), with soft-capped scores
//                     if the model has them
//   decode_residual   x += multiplier y w_o^T
//   decode_gates      h = rms_norm(x);  hidden = silu(h w_gate^T) (h w_up^T), or gelu (-D GELU)
//   decode_residual   x += multiplier hidden w_down^T
//   decode_post_norm  after decode_residual, if the model normalises these outputs: then that one
//                     writes output = y w^T, and this one x += multiplier rms_norm(output)
//
// decode_begin, before the first layer, for each rope: copies x, the position, the slot and the
// position's row of the rope table.
// With -D ADAPTED a product has an adapter's term, of its own rank R or none:
//   decode_shrink     s = input a^T, for all matrices with that input
//   y = h w^T + scale s u,  a [R, inputs], u [R, outputs]
// where q, k and v may have one adapter, u [R, (H + 2 G) E], and gate and up one, u [R, 2 F].
//
// Shapes  x [D]; rope_table [P, W / 2, 2]; keys, values [S, G, E]; weights [outputs, inputs];
//         state: all else (decode_row.clh), the angles of each rope [W / 2, 2], and the layers'
//         norms [D], [E] and biases of q, k, v [(H + 2 G) E], since each memory argument lengthens
//         a launch
// Types   weights one type of quant.clh; keys and values of -D KEY_TYPE: f32, bf16 or f16; all else
//         f32; position, slot [1] i32
// Work    a team of `lanes` neighbouring items, a power of two from 8, owns a pair of rows of w
//         that belong together: the two elements of a head that rope rotates, gate and up, or else
//         two neighbours. Items read interleaved vectors of eight elements; the first item of a
//         team stores the result. decode_shrink: a team owns a row of a. decode_begin: an item owns
//         an element. decode_head_norms: a group owns a head. decode_post_norm: one group
// Local   sums [3, GROUP]
// Cost    reads every weight once; a launch is bound by its latency
// Numerics  f32 fma in lanes' sums, then over the lanes: the same bits every run. rms_norm's scale
//         multiplies the sums of the products, not the row. REQUIRES: D, F and H E multiples of 8
//! clc: build GROUP=128 WEIGHT_TYPE={WEIGHT_F32,WEIGHT_BF16,WEIGHT_Q8_0} KEY_TYPE={f32,bf16}
//! clc: build GROUP=128 WEIGHT_TYPE=WEIGHT_BF16 KEY_TYPE=f16 ADAPTED
//! clc: build GROUP=128 WEIGHT_TYPE=WEIGHT_F32 KEY_TYPE=f32 GELU
//! clc: budget on gfx90a registers<=128 spills=0
#include "decode/decode_head_pair.clh"
#include "decode/decode_row.clh"
#include "elements.clh"
#include "group_reduce.clh"
#include "quant/quant_vec8.clh"
#include "rowwise/gate_function.clh"

#ifndef GROUP
#error "GROUP: work-items of a group, a power of two"
#endif
#ifndef KEY_TYPE
#error "KEY_TYPE, the type of the caches, is required"
#endif
#define AHEAD 2  // vec8s of each row of a pair that an item loads at once

#ifdef ADAPTED
#define ADAPTER_ARGUMENT(u) __global const float* u,
#define RANKS_ARGUMENT , DecodeRanks ranks
#else
#define ADAPTER_ARGUMENT(u)
#define RANKS_ARGUMENT
#endif

// An item's place: pairs past the end are computed as the last one, and not stored.
typedef struct {
  uint pair, lane, lanes;
  int there;
} Place;

Place place_of(uint pairs, uint lanes) {
  const uint team = (uint)get_global_id(0) / lanes;
  const Place place = {min(team, pairs - 1), (uint)get_local_id(0) & (lanes - 1), lanes,
                       team < pairs};
  return place;
}

// The sums over a team: products with two rows of w, and squares of the input.
typedef struct {
  float first, second, squares;
} Sums;

// values: this item's element of an array of its group. Adds every eighth element of the team.
void add_every_eighth(__local float* values, Place place) {
  float sum = values[0];
  for (uint i = 8; place.lane + i < place.lanes; i += 8) sum += values[i];
  values[0] = sum;
}

float sum_of_eight(__local const float* values) {
  float sum = values[0];
#pragma unroll
  for (uint i = 1; i < 8; ++i) sum += values[i];
  return sum;
}

// Item 0 of a team gets the sums of its items. scratch: 3 GROUP elements.
__attribute__((always_inline)) Sums team_total(Sums own, Place place, __local float* scratch) {
  __local float* first = scratch + get_local_id(0);
  __local float* second = first + GROUP;
  __local float* squares = second + GROUP;
  *first = own.first;
  *second = own.second;
  *squares = own.squares;
  barrier(CLK_LOCAL_MEM_FENCE);  // the sums of all items are written
  if (place.lane < 8) {
    add_every_eighth(first, place);
    add_every_eighth(second, place);
    add_every_eighth(squares, place);
  }
  barrier(CLK_LOCAL_MEM_FENCE);  // the sums of every eighth item are written
  Sums total = {0.0f, 0.0f, 0.0f};
  if (place.lane > 0) return total;
  total.first = sum_of_eight(first);
  total.second = sum_of_eight(second);
  total.squares = sum_of_eight(squares);
  return total;
}

// Adds this lane's products of two rows of w and `input` [K]. norm [K], or 0: the input's factors,
// and then its squares are added, too.
__attribute__((always_inline)) Sums add_products(Sums sums, __global const uchar* first,
                                                 __global const uchar* second,
                                                 __global const float* input,
                                                 __global const float* norm, uint K, Place place) {
  const uint apart = place.lanes * 8;
  for (uint k0 = place.lane * 8; k0 < K; k0 += AHEAD * apart) {
    Vec8 of_first[AHEAD], of_second[AHEAD];
    float8 inputs[AHEAD];
#pragma unroll
    for (uint c = 0; c < AHEAD; ++c) {  // all loads come first; past the end, of the last vec8
      const uint k = min(k0 + c * apart, K - 8);
      of_first[c] = load_vec8(first, k);
      of_second[c] = load_vec8(second, k);
      inputs[c] = vec8_of_floats(input + k);
    }
#pragma unroll
    for (uint c = 0; c < AHEAD; ++c) {
      float8 x = inputs[c];
      float8 factors = 1.0f;
      if (norm != 0) factors = vec8_of_floats(norm + min(k0 + c * apart, K - 8));
      if (k0 + c * apart >= K) continue;
      if (norm != 0) {
        sums.squares = add_dot8(sums.squares, x, x);
        x *= factors;
      }
      sums.first = add_dot8(sums.first, floats_of_vec8(of_first[c]), x);
      sums.second = add_dot8(sums.second, floats_of_vec8(of_second[c]), x);
    }
  }
  return sums;
}

// This lane's share of scale s u, of columns `first` and `second` of u [R, columns].
Sums low_rank(uint R, float scale, __global const float* s, __global const float* u, uint columns,
              uint first, uint second, Place place) {
  Sums sums = {0.0f, 0.0f, 0.0f};
  for (uint r = place.lane; r < R; r += place.lanes) {
    const float factor = scale * s[r];
    sums.first = fma(factor, u[(size_t)r * columns + first], sums.first);
    sums.second = fma(factor, u[(size_t)r * columns + second], sums.second);
  }
  return sums;
}

float norm_scale(Sums total, DecodeRow row) {
  return rsqrt(total.squares / (float)row.D + row.epsilon);
}

__kernel void decode_begin(__global float* state, __global const float* x,
                           __global const int* position, __global const int* slot,
                           __global const float* rope_table, DecodeRow row, uint angles) {
  const uint i = (uint)get_global_id(0);
  if (i < row.D) state[row.x + i] = x[i];
  if (i < row.W) state[angles + i] = rope_table[(size_t)position[0] * row.W + i];
  if (i > 0) return;
  state[row.position] = (float)position[0];  // exact: positions and S are at most 2^24
  state[row.slot] = (float)slot[0];
}

// input: an offset in state. norm: an offset, or 0 for none. K: its elements.
__attribute__((reqd_work_group_size(GROUP, 1, 1))) __kernel void decode_shrink(
    __global float* state, __global const float* a_0, __global const float* a_1,
    __global const float* a_2, DecodeRow row, DecodeRanks ranks, uint input, uint norm, uint K,
    uint lanes) {
  __local float scratch[3 * GROUP];
  const Place place = place_of(ranks.rank[0] + ranks.rank[1] + ranks.rank[2], lanes);
  __global const float* a = a_0;
  uint r = place.pair;
  if (r >= ranks.rank[0]) {
    r -= ranks.rank[0];
    a = a_1;
    if (r >= ranks.rank[1]) {
      r -= ranks.rank[1];
      a = a_2;
    }
  }
  Sums sums = {0.0f, 0.0f, 0.0f};
#pragma unroll 4
  for (uint k = place.lane * 8; k < K; k += lanes * 8) {
    float8 x = vec8_of_floats(state + input + k);
    if (norm > 0) x *= vec8_of_floats(state + norm + k);
    sums.first = add_dot8(sums.first, vec8_of_floats(a + (size_t)r * K + k), x);
  }
  const Sums total = team_total(sums, place, scratch);
  if (place.lane == 0 && place.there) state[row.s + place.pair] = total.first;
}

// Offsets in state: norm of the layer's norm, bias of its biases of q, k and v, angles and
// key_angles of the ropes of q and k, or 0: heads are not rotated here.
__attribute__((reqd_work_group_size(GROUP, 1, 1))) __kernel void decode_heads(
    __global float* state, __global const uchar* w_q, __global const uchar* w_k,
    __global const uchar* w_v,
    ADAPTER_ARGUMENT(u_q) ADAPTER_ARGUMENT(u_k) ADAPTER_ARGUMENT(u_v)
    __global STORED(KEY_TYPE)* keys, __global STORED(KEY_TYPE)* values, DecodeRow row RANKS_ARGUMENT,
    uint norm, uint bias, uint angles, uint key_angles, uint lanes) {
  __local float scratch[3 * GROUP];
  const uint H = row.H, G = row.G, half_dim = row.E / 2;
  const Place place = place_of((H + 2 * G) * half_dim, lanes);
  const uint head = place.pair / half_dim;
  // clc: allow index-overflow of a number of pairs
  const uint i = place.pair - head * half_dim;
  const PairInHead pair = pair_in_head(i, row.W);
  const uint column = pair.first, apart = pair.apart;
  const int matrix = head < H ? 0 : head < H + G ? 1 : 2;
  const uint own = matrix == 0 ? head : matrix == 1 ? head - H : head - H - G;
  // clc: allow index-overflow of a number of rows
  const uint n = own * row.E + column;  // the first row of the pair
  __global const uchar* w = matrix == 0 ? w_q : matrix == 1 ? w_k : w_v;
  // What the result needs besides the sums, loaded before the barriers.
  // clc: allow index-overflow of a number of rows
  __global const float* biases = state + bias + head * row.E + column;
  const float bias_a = biases[0], bias_b = biases[apart];
  const uint own_angles = matrix == 0 ? angles : key_angles;
  const int turns = matrix < 2 && pair.is_rotated && own_angles > 0;
  const float c = turns ? state[own_angles + 2 * i] : 1.0f;
  const float s = turns ? state[own_angles + 2 * i + 1] : 0.0f;
  const uint slot = (uint)(int)state[row.slot];
  Sums sums = {0.0f, 0.0f, 0.0f};
#ifdef ADAPTED
  __global const float* u = matrix == 0 ? u_q : matrix == 1 ? u_k : u_v;
  uint before = matrix == 0 ? 0 : matrix == 1 ? ranks.rank[0] : ranks.rank[0] + ranks.rank[1];
  uint heads_of_u = matrix == 0 ? H : G, n_of_u = n;
  if (ranks.joined) {
    before = 0;
    heads_of_u = H + 2 * G;
    // clc: allow index-overflow of a number of columns
    n_of_u = head * row.E + column;
  }
  sums = low_rank(ranks.rank[matrix], ranks.scale[matrix], state + row.s + before, u,
                  heads_of_u * row.E, n_of_u, n_of_u + apart, place);
#endif
  sums = add_products(sums, weight_row(w, n, row.D), weight_row(w, n + apart, row.D),
                      state + row.x, state + norm, row.D, place);
  const Sums total = team_total(sums, place, scratch);
  if (place.lane > 0 || !place.there) return;

  const float factor = norm_scale(total, row);
  const float a = fma(total.first, factor, bias_a), b = fma(total.second, factor, bias_b);
  const float first = a * c - b * s, second = a * s + b * c;
  if (matrix == 0 || (matrix == 1 && row.k > 0)) {
    __global float* out = state + (matrix == 0 ? row.q : row.k);
    out[n] = first;
    out[n + apart] = second;
  } else if (slot < row.S) {
    __global STORED(KEY_TYPE)* out = (matrix == 1 ? keys : values) + (size_t)slot * G * row.E;
    STORE_ONE(KEY_TYPE, out, n, first);
    STORE_ONE(KEY_TYPE, out, n + apart, second);
  }
}

// norms: the offset in state of the norms of q's and then k's heads, [2, E]; angles, key_angles: as
// above.
__attribute__((reqd_work_group_size(GROUP, 1, 1))) __kernel void decode_head_norms(
    __global float* state, __global STORED(KEY_TYPE)* keys, DecodeRow row, uint norms,
    uint angles, uint key_angles) {
  __local float scratch[GROUP];
  const uint unit = (uint)get_group_id(0), item = (uint)get_local_id(0);
  const int is_q = unit < row.H;
  const uint slot = (uint)(int)state[row.slot];
  // Not a return: pocl 3.1 compiles one before a barrier wrongly, even if the whole group returns.
  const uint E = is_q || slot < row.S ? row.E : 0;
  // clc: allow index-overflow of heads
  __global float* head = state + (is_q ? row.q + unit * E : row.k + (unit - row.H) * E);
  __global STORED(KEY_TYPE)* key = keys + ((size_t)slot * row.G + unit - row.H) * E;
  __global const float* w = state + norms + (is_q ? 0 : E);
  const uint own_angles = is_q ? angles : key_angles;
  float squares = 0.0f;
  for (uint e = item; e < E; e += GROUP) squares = fma(head[e], head[e], squares);
  const float scale = rsqrt(group_sum(squares, scratch) / (float)row.E + row.epsilon);
  for (uint i = item; i < E / 2; i += GROUP) {
    const PairInHead pair = pair_in_head(i, row.W);
    const uint first = pair.first, second = first + pair.apart;
    const float a = head[first] * scale * w[first], b = head[second] * scale * w[second];
    const int turns = pair.is_rotated && own_angles > 0;
    const float c = turns ? state[own_angles + 2 * i] : 1.0f;
    const float s = turns ? state[own_angles + 2 * i + 1] : 0.0f;
    const float at_first = a * c - b * s, at_second = a * s + b * c;
    if (is_q) {
      head[first] = at_first;
      head[second] = at_second;
    } else {
      STORE_ONE(KEY_TYPE, key, first, at_first);
      STORE_ONE(KEY_TYPE, key, second, at_second);
    }
  }
}

__attribute__((reqd_work_group_size(GROUP, 1, 1))) __kernel void decode_gates(
    __global float* state, __global const uchar* w_gate, __global const uchar* w_up,
    ADAPTER_ARGUMENT(u_gate) ADAPTER_ARGUMENT(u_up) DecodeRow row RANKS_ARGUMENT, uint norm,
    uint lanes) {
  __local float scratch[3 * GROUP];
  const Place place = place_of(row.F, lanes);
  const uint n = place.pair;
  Sums sums = {0.0f, 0.0f, 0.0f};
#ifdef ADAPTED
  __global const float* s = state + row.s;
  const uint columns = ranks.joined ? 2 * row.F : row.F;
  const uint before = ranks.joined ? 0 : ranks.rank[0], n_up = ranks.joined ? row.F + n : n;
  sums.first = low_rank(ranks.rank[0], ranks.scale[0], s, u_gate, columns, n, n, place).first;
  sums.second =
      low_rank(ranks.rank[1], ranks.scale[1], s + before, u_up, columns, n_up, n_up, place).second;
#endif
  sums = add_products(sums, weight_row(w_gate, n, row.D), weight_row(w_up, n, row.D), state + row.x,
                      state + norm, row.D, place);
  const Sums total = team_total(sums, place, scratch);
  if (place.lane > 0 || !place.there) return;
  const float factor = norm_scale(total, row);
  const float gate = total.first * factor, up = total.second * factor;
  state[row.hidden + n] = gate / (1.0f + exp(-GATE_EXPONENT(gate))) * up;
}

// input: an offset in state. K: its elements. adds: whether x is added to; else output is written.
__attribute__((reqd_work_group_size(GROUP, 1, 1))) __kernel void decode_residual(
    __global float* state, __global const uchar* w,
    ADAPTER_ARGUMENT(u) DecodeRow row RANKS_ARGUMENT, uint input, uint K, uint adds, uint lanes) {
  __local float scratch[3 * GROUP];
  const Place place = place_of(row.D / 2, lanes);
  const uint n = 2 * place.pair;
  __global float* x = state + (adds ? row.x : row.output) + n;
  const int stores = place.lane == 0 && place.there;
  const float before_0 = stores && adds ? x[0] : 0.0f;  // loaded before the barriers
  const float before_1 = stores && adds ? x[1] : 0.0f;
  const float multiplier = adds ? row.multiplier : 1.0f;
  Sums sums = {0.0f, 0.0f, 0.0f};
#ifdef ADAPTED
  sums = low_rank(ranks.rank[0], ranks.scale[0], state + row.s, u, row.D, n, n + 1, place);
#endif
  sums =
      add_products(sums, weight_row(w, n, K), weight_row(w, n + 1, K), state + input, 0, K, place);
  const Sums total = team_total(sums, place, scratch);
  if (!stores) return;
  x[0] = fma(multiplier, total.first, before_0);
  x[1] = fma(multiplier, total.second, before_1);
}

// norm: the offset in state of the norm's weights.
__attribute__((reqd_work_group_size(GROUP, 1, 1))) __kernel void decode_post_norm(
    __global float* state, DecodeRow row, uint norm) {
  __local float scratch[GROUP];
  float squares = 0.0f;
  for (uint i = (uint)get_local_id(0); i < row.D; i += GROUP) {
    const float y = state[row.output + i];
    squares = fma(y, y, squares);
  }
  const float scale =
      row.multiplier * rsqrt(group_sum(squares, scratch) / (float)row.D + row.epsilon);
  for (uint i = (uint)get_local_id(0); i < row.D; i += GROUP) {
    state[row.x + i] = fma(state[row.output + i] * scale, state[norm + i], state[row.x + i]);
  }
}
