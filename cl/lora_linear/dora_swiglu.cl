// dora_swiglu: the backward of swiglu between layers with weight-decomposed adapters (dora.cl): the
// gradients of gate and up, scaled with the factors of their layers, and the sums of the gradients
// of their magnitudes, from one read of gate and up.
//
//   s = 1 / (1 + exp(-t(gate))), with t, f and the slopes of cl/rowwise/gate_function.clh
//   dgate = dy up s (f' + f t' (1 - s))         dup = dy f s
//   scaled_gate[t, n] = g_gate[n] dgate[t, n]   parts_gate[c, n] = sum of dgate gate over chunk c
//   and the same of up; y = f s up, recomputed
// Shapes  gate, up, dy, y, scaled_gate, scaled_up [T, N]; g_gate, g_up [N]; parts [chunks, N]
// Types   gate and up of -D GATE_TYPE, dy of DY_TYPE, y of Y_TYPE, scaled_gate and scaled_up of
//         DGATE_TYPE: f32, bf16 or f16; all else f32
// Work    an item owns VEC_SIZE columns (dimension 0) of a chunk of chunk_rows rows (dimension 1), or
//         with -D BY_ROWS, for CPUs, all columns of a chunk, row by row, and sums in memory
// Local   none
// Cost    reads dy, gate and up, writes three; about 24 flops and an exp an element
// Numerics  f32 in a fixed order. An item reads its elements before it writes them: y may alias dy
//! clc: build VEC_SIZE={1,4} GATE_TYPE={f32,bf16} DY_TYPE={f32,bf16} Y_TYPE={f32,bf16} DGATE_TYPE=bf16
//! clc: build VEC_SIZE={1,8} GATE_TYPE={f32,bf16} DY_TYPE=f32 Y_TYPE=f32 DGATE_TYPE=f32 BY_ROWS
//! clc: build VEC_SIZE=4 GATE_TYPE=f32 DY_TYPE=f32 Y_TYPE=f32 DGATE_TYPE=f32 GELU
//! clc: budget on gfx90a registers<=112 spills=0
#if !defined(GATE_TYPE) || !defined(DY_TYPE) || !defined(Y_TYPE) || !defined(DGATE_TYPE)
#error "GATE_TYPE, DY_TYPE, Y_TYPE and DGATE_TYPE are required"
#endif
#include "activations.clh"
#include "inlined.clh"
#include "rowwise/gate_function.clh"

#define AHEAD 4  // rows that an item of a GPU loads before it stores one: y may alias dy

typedef struct {
  __global STORED(DGATE_TYPE) *gate, *up;
  __global STORED(Y_TYPE)* y;
} Outputs;
typedef struct {
  __global const STORED(DY_TYPE)* dy;
  __global const STORED(GATE_TYPE) *gate, *up;
} Inputs;

typedef struct {
  vec d, g, u;
} Loaded;
INLINED Loaded load_vecs(Inputs in, long i) {
  const Loaded of = {LOAD_VEC(DY_TYPE, in.dy, i), LOAD_VEC(GATE_TYPE, in.gate, i),
                     LOAD_VEC(GATE_TYPE, in.up, i)};
  return of;
}

// Writes vec i of the outputs and adds its terms to the sums.
INLINED void backward_vec(Outputs out, Loaded in, long i, vec g_gate, vec g_up, vec* of_gate,
                          vec* of_up) {
  const vec d = in.d, g = in.g, u = in.u;
  const vec s = 1.0f / (1.0f + exp(-GATE_EXPONENT(g)));
  const vec dgate = d * u * s * fma(GATE_SLOPE(g), 1.0f - s, (vec)(GATE_CONSTANT));
  const vec dup = d * GATE_FACTOR(g) * s;
  *of_gate += dgate * g;
  *of_up += dup * u;
  STORE_VEC(DGATE_TYPE, out.gate, i, g_gate * dgate);
  STORE_VEC(DGATE_TYPE, out.up, i, g_up * dup);
  STORE_VEC(Y_TYPE, out.y, i, GATE_FACTOR(g) * s * u);
}

__kernel void dora_swiglu_backward(
    __global STORED(DGATE_TYPE)* scaled_gate, __global STORED(DGATE_TYPE)* scaled_up,
    __global STORED(Y_TYPE)* y, __global float* parts_gate, __global float* parts_up,
    __global const STORED(DY_TYPE)* dy, __global const STORED(GATE_TYPE)* gate,
    __global const STORED(GATE_TYPE)* up, __global const float* g_gate, __global const float* g_up,
    uint T, uint N, uint chunk_rows) {
  const Outputs out = {scaled_gate, scaled_up, y};
  const Inputs in = {dy, gate, up};
  const uint vecs = N / VEC_SIZE, chunk = get_global_id(1);
  const uint begin = chunk * chunk_rows, end = min(T, begin + chunk_rows);
  parts_gate += (size_t)chunk * N;
  parts_up += (size_t)chunk * N;
#ifdef BY_ROWS
  for (uint at = 0; at < vecs; ++at) {
    STORE_VEC(f32, parts_gate, at, (vec)(0.0f));
    STORE_VEC(f32, parts_up, at, (vec)(0.0f));
  }
  for (uint t = begin; t < end; ++t) {
    for (uint at = 0; at < vecs; ++at) {
      vec of_gate = LOAD_VEC(f32, parts_gate, at), of_up = LOAD_VEC(f32, parts_up, at);
      const long i = (long)t * vecs + at;
      backward_vec(out, load_vecs(in, i), i, LOAD_VEC(f32, g_gate, at),
                   LOAD_VEC(f32, g_up, at), &of_gate, &of_up);
      STORE_VEC(f32, parts_gate, at, of_gate);
      STORE_VEC(f32, parts_up, at, of_up);
    }
  }
#else
  const uint at = get_global_id(0);
  if (at >= vecs) return;
  const vec factor_gate = LOAD_VEC(f32, g_gate, at), factor_up = LOAD_VEC(f32, g_up, at);
  vec of_gate = 0.0f, of_up = 0.0f;
  for (uint first = begin; first < end; first += AHEAD) {
    Loaded loaded[AHEAD];
#pragma unroll
    for (uint j = 0; j < AHEAD; ++j) {
      loaded[j] = load_vecs(in, (long)min(first + j, end - 1) * vecs + at);
    }
#pragma unroll
    for (uint j = 0; j < AHEAD; ++j) {
      if (first + j >= end) continue;
      const long i = (long)(first + j) * vecs + at;
      backward_vec(out, loaded[j], i, factor_gate, factor_up, &of_gate, &of_up);
    }
  }
  STORE_VEC(f32, parts_gate, at, of_gate);
  STORE_VEC(f32, parts_up, at, of_up);
#endif
}
