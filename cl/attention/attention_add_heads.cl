// attention_add_heads: the gradients of key and value heads, summed over their query heads.
//   dk[t, g] = sum_h dk_parts[t, h],  dv[t, g] = sum_h dv_parts[t, h],  h in g H / G ..
//
// Shapes  dk, dv [T, G, E]; dk_parts, dv_parts [T, H, E]; heads = H / G; elements = T G E
// Types   all -D X_TYPE: f32 or bf16
// Work    an item owns VEC_SIZE elements of dk or, in dimension 1, of dv; E is a multiple of it
// Local   none
// Cost    reads the parts and writes dk and dv
// Numerics sums in f32, over the heads in order
//! clc: build VEC_SIZE=4 X_TYPE={f32,bf16}
#include "activations.clh"

__kernel void attention_add_heads(__global STORED(X_TYPE)* dk, __global STORED(X_TYPE)* dv,
                                  __global const STORED(X_TYPE)* dk_parts,
                                  __global const STORED(X_TYPE)* dv_parts, int heads, int E,
                                  int elements) {
  const int i = VEC_SIZE * get_global_id(0);
  if (i >= elements) return;
  const int is_dv = get_global_id(1);
  const long from = (i + (long)(i / E) * (heads - 1) * E) / VEC_SIZE;
  vec sum = 0.0f;
#pragma unroll 4
  for (int h = 0; h < heads; ++h) {
    sum += LOAD_VEC(X_TYPE, is_dv ? dv_parts : dk_parts, from + h * (E / VEC_SIZE));
  }
  STORE_VEC(X_TYPE, is_dv ? dv : dk, i / VEC_SIZE, sum);
}
