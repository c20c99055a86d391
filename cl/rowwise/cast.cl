// cast, portable: y = x in another type.
// Shapes: x, y as one flat range
// Types: f32, bf16 or f16 each (-D X_TYPE, Y_TYPE)
// Work: a work-item owns a vector of VEC_SIZE elements
// Local: none
// Cost: reads x, writes y
// Numerics: exact, or rounded to nearest even; beyond the range of f16 to infinity
//! clc: build X_TYPE={f32,f16} Y_TYPE={f32,bf16,f16} VEC_SIZE={1,4}
//! clc: budget on gfx90a registers<=32 spills=0
#include "activations.clh"

__kernel void cast(__global STORED(Y_TYPE)* restrict y, __global const STORED(X_TYPE)* restrict x,
                   long n) {
  const long i = get_global_id(0);
  if (i < n / VEC_SIZE) STORE_VEC(Y_TYPE, y, i, LOAD_VEC(X_TYPE, x, i));
}
