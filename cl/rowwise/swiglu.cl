// swiglu, portable: y = silu(gate) up, silu(g) = g s(g), s(g) = 1 / (1 + exp(-g)).
// backward: dup = dy silu(gate); dgate = dy up silu'(gate), silu'(g) = s (1 + g (1 - s)).
// -D GELU, SIGMOID: gelu or the sigmoid in place of silu (cl/rowwise/gate_function.clh).
// swiglu_forward_saving also writes gate and up as bf16 (saved_gate, saved_up); backward with
// -D Y_TYPE also writes y.
// Shapes: all [T, F], taken as one flat range of n elements, a multiple of VEC_SIZE
// Types: f32, bf16 or f16: gate and up (-D GATE_TYPE), y (Y_TYPE), dy (DY_TYPE), dgate and dup
//   (DGATE_TYPE); saved_gate and saved_up bf16
// Work: one work-item per vector of VEC_SIZE elements (activations.clh)
// Cost: forward reads gate and up and writes y, 5 flops and an exp per element; backward reads dy,
//   gate and up and writes dgate and dup, 10 flops and an exp, and 2 flops for y
// Numerics: exp(-g) may overflow to infinity, and then s is 0, the correct limit. One item reads
//   all inputs of an element before it writes: an output may alias any input of the same type
//! clc: build GATE_TYPE={f32,bf16} Y_TYPE={f32,bf16} VEC_SIZE={1,4}
//! clc: build GATE_TYPE=f16 Y_TYPE=f16 VEC_SIZE=8
//! clc: build GATE_TYPE={f32,bf16} Y_TYPE=f32 VEC_SIZE=4 GELU
//! clc: build GATE_TYPE=f32 DY_TYPE=f32 DGATE_TYPE=f32 Y_TYPE=f32 VEC_SIZE=4 GELU
//! clc: build GATE_TYPE={f32,bf16} Y_TYPE=f32 VEC_SIZE=4 SIGMOID
//! clc: build GATE_TYPE=f32 DY_TYPE=f32 DGATE_TYPE=f32 VEC_SIZE=4 SIGMOID
//! clc: build GATE_TYPE={f32,bf16} DY_TYPE=f32 DGATE_TYPE={f32,bf16} VEC_SIZE=4
//! clc: budget on gfx90a registers<=48 spills=0

#include "activations.clh"
#include "rowwise/gate_function.clh"

#ifndef DY_TYPE
vec swiglu(vec g, vec u) { return GATED(g, u); }

__kernel void swiglu_forward(__global STORED(Y_TYPE)* y, __global const STORED(GATE_TYPE)* gate,
                             __global const STORED(GATE_TYPE)* up, long n) {
  const long i = (long)get_global_id(0);
  if (i >= n / VEC_SIZE) return;
  const vec g = LOAD_VEC(GATE_TYPE, gate, i);
  const vec u = LOAD_VEC(GATE_TYPE, up, i);
  STORE_VEC(Y_TYPE, y, i, swiglu(g, u));
}

__kernel void swiglu_forward_saving(__global STORED(Y_TYPE)* y,
                                     __global const STORED(GATE_TYPE)* gate,
                                     __global const STORED(GATE_TYPE)* up,
                                     __global ushort* saved_gate, __global ushort* saved_up,
                                     long n) {
  const long i = (long)get_global_id(0);
  if (i >= n / VEC_SIZE) return;
  const vec g = LOAD_VEC(GATE_TYPE, gate, i);
  const vec u = LOAD_VEC(GATE_TYPE, up, i);
  store_bf16(saved_gate, i, g);
  store_bf16(saved_up, i, u);
  STORE_VEC(Y_TYPE, y, i, swiglu(g, u));
}
#else
__kernel void swiglu_backward(__global STORED(DGATE_TYPE)* dgate, __global STORED(DGATE_TYPE)* dup,
                              __global const STORED(DY_TYPE)* dy,
                              __global const STORED(GATE_TYPE)* gate,
                              __global const STORED(GATE_TYPE)* up,
#ifdef Y_TYPE
                              __global STORED(Y_TYPE)* y,
#endif
                              long n) {
  const long i = (long)get_global_id(0);
  if (i >= n / VEC_SIZE) return;
  const vec d = LOAD_VEC(DY_TYPE, dy, i);
  const vec g = LOAD_VEC(GATE_TYPE, gate, i);
  const vec u = LOAD_VEC(GATE_TYPE, up, i);
  const vec s = 1.0f / (1.0f + exp(-GATE_EXPONENT(g)));
  STORE_VEC(DGATE_TYPE, dgate, i, d * u * s * fma(GATE_SLOPE(g), 1.0f - s, (vec)(GATE_CONSTANT)));
  STORE_VEC(DGATE_TYPE, dup, i, d * GATE_FACTOR(g) * s);
#ifdef Y_TYPE
  STORE_VEC(Y_TYPE, y, i, GATE_FACTOR(g) * s * u);
#endif
}
#endif
