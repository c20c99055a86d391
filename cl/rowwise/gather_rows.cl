// gather_rows: y[a] = x[source[a]]; with -D SUMS, y[a] = x[source[a]] + x[second[a]]. A number that
// is no row of x stands for a row of zeros.
// Shapes: y [A, width VEC_SIZE], x [N, width VEC_SIZE]; source, second [A] i32
// Types: x and y f32, bf16 or f16 (-D X_TYPE)
// Work: a work-item owns a vector of VEC_SIZE columns, of every get_global_size(1)-th row of y
// Local: none
// Cost: reads a row of x, or two, and writes one for each row of y
// Numerics: copies are exact; sums in f32, then rounded
//! clc: build X_TYPE={f32,bf16,f16} VEC_SIZE={1,4}
//! clc: build SUMS X_TYPE={f32,bf16,f16} VEC_SIZE={1,4}
//! clc: budget on gfx90a registers<=48 spills=0
#include "activations.clh"

// width is in vectors.
__kernel void gather_rows(__global STORED(X_TYPE)* restrict y,
                          __global const STORED(X_TYPE)* restrict x, __global const int* source,
#ifdef SUMS
                          __global const int* second,
#endif
                          uint A, uint N, uint width) {
  const uint c = get_global_id(0);
  if (c >= width) return;
  for (uint a = get_global_id(1); a < A; a += get_global_size(1)) {
    const uint row = (uint)source[a];
    vec value = (vec)(0.0f);
    if (row < N) value = LOAD_VEC(X_TYPE, x, (long)row * width + c);
#ifdef SUMS
    const uint other = (uint)second[a];
    if (other < N) value += LOAD_VEC(X_TYPE, x, (long)other * width + c);
#endif
    STORE_VEC(X_TYPE, y, (long)a * width + c, value);
  }
}
