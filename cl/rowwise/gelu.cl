// gelu, portable: y = x P(x), P the distribution function of the normal distribution (Hendrycks and
// Gimpel, 2016).
// backward: dx = dy (P(x) + x p(x)), p = P' the density; with -D Y_TYPE it also writes y.
// -D TANH: P in the tanh form of the same paper, 1 / (1 + exp(-t(x))) (cl/rowwise/gate_function.clh).
// Shapes: all as one flat range of n elements, a multiple of VEC_SIZE
// Types: f32, bf16 or f16: x (-D X_TYPE), y (Y_TYPE), dy (DY_TYPE), dx (DX_TYPE)
// Work: one work-item per vector of VEC_SIZE elements (activations.clh)
// Cost: forward reads x and writes y, an erf and 3 flops per element; backward reads dy and x and
//   writes dx, an erf, an exp and 6 flops, and 1 flop for y
// Numerics: one item reads all inputs of an element before it writes: an output may alias any input
//   of the same type
//! clc: build X_TYPE={f32,bf16} Y_TYPE={f32,bf16} VEC_SIZE={1,4}
//! clc: build X_TYPE=f16 Y_TYPE=f16 VEC_SIZE=8
//! clc: build X_TYPE=f32 Y_TYPE=f32 VEC_SIZE=4 TANH
//! clc: build X_TYPE=f32 DY_TYPE=f32 DX_TYPE={f32,bf16} VEC_SIZE=4
//! clc: build X_TYPE=f32 DY_TYPE=f32 DX_TYPE=f32 Y_TYPE=f32 VEC_SIZE=4 TANH
//! clc: budget on gfx90a registers<=64 spills=0
#ifdef TANH
#define GELU
#endif
#include "activations.clh"
#include "rowwise/gate_function.clh"

#ifdef TANH
vec distribution(vec x) { return 1.0f / (1.0f + exp(-GATE_EXPONENT(x))); }
// x times the density
vec scaled_density(vec x, vec P) { return GATE_SLOPE(x) * P * (1.0f - P); }
#else
vec distribution(vec x) { return 0.5f * (1.0f + erf(0.70710678f * x)); }
vec scaled_density(vec x, vec P) { return 0.39894228f * x * exp(-0.5f * x * x); }
#endif

#ifndef DY_TYPE
__kernel void gelu_forward(__global STORED(Y_TYPE)* y, __global const STORED(X_TYPE)* x, long n) {
  const long i = (long)get_global_id(0);
  if (i >= n / VEC_SIZE) return;
  const vec v = LOAD_VEC(X_TYPE, x, i);
  STORE_VEC(Y_TYPE, y, i, v * distribution(v));
}
#else
__kernel void gelu_backward(__global STORED(DX_TYPE)* dx, __global const STORED(DY_TYPE)* dy,
                            __global const STORED(X_TYPE)* x,
#ifdef Y_TYPE
                            __global STORED(Y_TYPE)* y,
#endif
                            long n) {
  const long i = (long)get_global_id(0);
  if (i >= n / VEC_SIZE) return;
  const vec d = LOAD_VEC(DY_TYPE, dy, i);
  const vec v = LOAD_VEC(X_TYPE, x, i);
  const vec P = distribution(v);
  STORE_VEC(DX_TYPE, dx, i, d * (P + scaled_density(v, P)));
#ifdef Y_TYPE
  STORE_VEC(Y_TYPE, y, i, v * P);
#endif
}
#endif
