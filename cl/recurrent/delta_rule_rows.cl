// delta_rule_rows: the rows of delta_rule on matrix units, between their layout outside, by rows,
// and that of its scratch, by heads in bf16 (delta_rule_matrix.clh).
//
//   gather   heads of x to q, k, v or dy; those of q and k through their L2 norm
//   gates    G, beta, carry, to_end of delta_rule.cl
//   scatter  the gradients of q or k through their L2 norms, summed over the value heads of a key head
// Shapes: x, dx [T, x_width], of which `heads` heads of HEAD_DIM elements from column `begin` on;
//   out [heads, T_PAD, HEAD_PAD]; d [VALUE_HEADS, T_PAD, HEAD_PAD]; a, b [T, VALUE_HEADS]; rate,
//   dt_bias [VALUE_HEADS]; gates [4, VALUE_HEADS, T_PAD]; first [T]
// Types: x, dx, a, b f32, bf16 or f16 (-D TYPE); out, d bf16; first i32; the others f32
// Work: gather, scatter: a team of HEAD_PAD / 8 items for a head of a row; GROUP / TEAM teams a group.
//   gates: a group of CHUNK items for a chunk and a value head
// Local: gather GROUP floats; scatter 2 GROUP; gates 2 CHUNK
// Cost: reads and writes each element once
// Numerics: sums f32 in a fixed order; those of gates are of a document only, as in delta_rule.cl
//! clc: build TYPE={f32,bf16,f16} GROUP=128 HEAD_DIM=128 HEAD_PAD=128 CHUNK=64 VALUE_HEADS=16
//!     PER_KEY_HEAD=1
//! clc: build TYPE=f32 GROUP=64 HEAD_DIM=24 HEAD_PAD=64 CHUNK=64 VALUE_HEADS=4 PER_KEY_HEAD=2
#define VEC_SIZE 8
#include "activations.clh"
#include "recurrent/delta_rule_formulas.clh"

#if !defined(TYPE) || !defined(GROUP) || !defined(HEAD_DIM) || !defined(HEAD_PAD) || \
    !defined(CHUNK) || !defined(VALUE_HEADS) || !defined(PER_KEY_HEAD)
#error "TYPE; GROUP; HEAD_DIM, a multiple of 8; HEAD_PAD; CHUNK; VALUE_HEADS; PER_KEY_HEAD"
#endif
#define TEAM (HEAD_PAD / 8)
#define TEAMS (GROUP / TEAM)

// The sum over the items of this item's team. sums: GROUP floats.
float team_sum(float x, __local float* sums) {
  const int item = (int)get_local_id(0);
  sums[item] = x;
  barrier(CLK_LOCAL_MEM_FENCE);  // the values of all items are there
  float sum = 0.0f;
  for (int i = 0; i < TEAM; ++i) sum += sums[item / TEAM * TEAM + i];
  return sum;
}

// scale: 0, or of each head's normalised elements. T_pad heads' rows are a multiple of TEAMS.
__attribute__((reqd_work_group_size(GROUP, 1, 1))) __kernel void delta_rule_rows_gather(
    __global ushort* restrict out, __global const STORED(TYPE)* restrict x, int T, int T_pad,
    int x_width, int begin, int heads, float scale) {
  __local float sums[GROUP];
  const int n = (int)get_group_id(0) * TEAMS + (int)get_local_id(0) / TEAM;
  const int t = n / heads, head = n % heads, at = (int)get_local_id(0) % TEAM * 8;
  vec value = 0.0f;
  if (t < T && at < HEAD_DIM) {
    value = LOAD_VEC(TYPE, x + (size_t)t * x_width + begin + head * HEAD_DIM + at, 0);
  }
  float factor = 1.0f;
  if (scale != 0.0f) {
    factor = scale * rsqrt(team_sum(sum_of_lanes(value * value), sums) + NORM_EPSILON);
  }
  STORE_VEC(bf16, out + ((size_t)head * T_pad + t) * HEAD_PAD + at, 0, factor * value);
}

__attribute__((reqd_work_group_size(CHUNK, 1, 1))) __kernel void delta_rule_rows_gates(
    __global float* restrict gates, __global const STORED(TYPE)* restrict a,
    __global const STORED(TYPE)* restrict b, __global const float* restrict rate,
    __global const float* restrict dt_bias, __global const int* restrict first, int T, int T_pad) {
  __local float sums[2][CHUNK];
  __local int last_document;
  const int i = (int)get_local_id(0), t0 = (int)get_group_id(0) * CHUNK, t = t0 + i;
  const int h = (int)get_group_id(1), document = first[min(t, T - 1)] - t0;
  const size_t at = (size_t)t * VALUE_HEADS + h;
  float sum = t < T ? rate[h] * softplus(LOAD_ONE(TYPE, a, at) + dt_bias[h]) : 0.0f;
  const float beta = t < T ? sigmoid(LOAD_ONE(TYPE, b, at)) : 0.0f;
  int turn = 0;
  for (int apart = 1; apart < CHUNK; apart *= 2, turn ^= 1) {
    sums[turn][i] = sum;
    barrier(CLK_LOCAL_MEM_FENCE);  // the sums of 2 apart rows are there; those before are read
    if (i - apart >= max(document, 0)) sum += sums[turn][i - apart];
  }
  sums[turn][i] = sum;
  if (i == CHUNK - 1) last_document = document;
  barrier(CLK_LOCAL_MEM_FENCE);  // the sums of all rows are there
  const size_t one = (size_t)VALUE_HEADS * T_pad;
  const float carry = document < 0 ? exp(sum) : 0.0f;
  gates += (size_t)h * T_pad + t;
  gates[0] = sum;
  gates[one] = beta;
  gates[2 * one] = carry;
  gates[3 * one] = i >= last_document ? exp(sums[turn][CHUNK - 1] - sum) : 0.0f;
}

__attribute__((reqd_work_group_size(GROUP, 1, 1))) __kernel void delta_rule_rows_scatter(
    __global STORED(TYPE)* restrict dx, __global const ushort* restrict d,
    __global const STORED(TYPE)* restrict x, int T, int T_pad, int x_width, int begin, int heads,
    float scale) {
  __local float squares[GROUP], products[GROUP];
  const int n = (int)get_group_id(0) * TEAMS + (int)get_local_id(0) / TEAM;
  const int t = n / heads, head = n % heads, at = (int)get_local_id(0) % TEAM * 8;
  const bool valid = t < T && at < HEAD_DIM;
  const size_t to = (size_t)t * x_width + begin + head * HEAD_DIM + at;
  vec value = 0.0f, gradient = 0.0f;
  if (valid) {
    value = LOAD_VEC(TYPE, x + to, 0);
    for (int part = 0; part < PER_KEY_HEAD; ++part) {
      const size_t row = (size_t)(head * PER_KEY_HEAD + part) * T_pad + t;
      gradient += LOAD_VEC(bf16, d + row * HEAD_PAD + at, 0);
    }
  }
  const float factor = rsqrt(team_sum(sum_of_lanes(value * value), squares) + NORM_EPSILON);
  const float along =
      team_sum(sum_of_lanes(value * gradient), products) * factor * factor;
  if (valid) STORE_VEC(TYPE, dx + to, 0, scale * factor * (gradient - along * value));
}
