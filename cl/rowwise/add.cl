// add, portable: y = x + factor t, or with -D NO_X y = factor t.
// Shapes: x, t, y as one flat range of n elements, a multiple of VEC_SIZE
// Types: f32, bf16 or f16 each (-D X_TYPE, T_TYPE, Y_TYPE)
// Work: a work-item owns a vector of VEC_SIZE elements
// Local: none
// Cost: reads x and t, writes y; 2 flops per element
// Numerics: one fma in f32, then rounded. An item reads its elements before it writes them: y may
//   alias x or t if their types are equal
//! clc: build X_TYPE=f32 T_TYPE={f32,bf16,f16} Y_TYPE={f32,bf16,f16} VEC_SIZE={1,4}
//! clc: build NO_X T_TYPE={f32,bf16} Y_TYPE={f32,bf16} VEC_SIZE=4
//! clc: budget on gfx90a registers<=32 spills=0
#include "activations.clh"

__kernel void add(__global STORED(Y_TYPE)* y,
#ifndef NO_X
                  __global const STORED(X_TYPE)* x,
#endif
                  __global const STORED(T_TYPE)* t, float factor, long n) {
  const long i = get_global_id(0);
  if (i >= n / VEC_SIZE) return;
  const vec v = LOAD_VEC(T_TYPE, t, i);
#ifdef NO_X
  STORE_VEC(Y_TYPE, y, i, factor * v);
#else
  STORE_VEC(Y_TYPE, y, i, fma((vec)(factor), v, LOAD_VEC(X_TYPE, x, i)));
#endif
}
