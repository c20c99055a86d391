// combine: rows from the slots of their experts (router.cl), and the backward.
//
//   combine           y [T, D] = residual + the sum over k of weights[t, k] x[slots[t, k], :]
//   combine_backward  dx [S, D] = weight of the slot's entry * dy of its row; unused slots: zeros
//                     dweights [T, K] = dy of the row . x of the slot
//
// Shapes: x, dx [S, D], y, dy, residual [T, D], weights, slots [T, K], entries [S]
// Types: x and dx of -D X_TYPE, y, dy and residual of -D Y_TYPE, f32, bf16 or f16; weights f32; with
//   -D NO_WEIGHTS they are 1, with -D NO_RESIDUAL it is 0
// Work: combine: an item owns a vector of VEC_SIZE columns of a row; combine_backward: a work-group
//   of GROUP items owns a slot, and an item every GROUP-th vector
// Local: combine_backward: the items' sums
// Cost: combine reads K rows for each, combine_backward two; both write one
// Numerics: f32 fma in the order of k; sums over D by items, then over the items in a fixed order.
//   y may be residual
//! clc: build VEC_SIZE={1,4} GROUP={1,64} X_TYPE={f32,bf16} Y_TYPE={f32,bf16}
//! clc: build VEC_SIZE=4 GROUP=64 X_TYPE=f32 Y_TYPE=f32 NO_WEIGHTS NO_RESIDUAL
#include "activations.clh"
#if GROUP > 1
#include "team_sums.clh"
#endif

#if !defined(X_TYPE) || !defined(Y_TYPE) || !defined(GROUP)
#error "X_TYPE, Y_TYPE and GROUP are required"
#endif

// D is in vectors.
__kernel void combine(__global STORED(Y_TYPE)* y, __global const STORED(X_TYPE)* x,
                      __global const STORED(Y_TYPE)* residual, __global const float* weights,
                      __global const int* slots, uint T, uint K, uint D) {
  const uint d = get_global_id(0);
  if (d >= D) return;
  for (uint t = get_global_id(1); t < T; t += get_global_size(1)) {
    const size_t at = (size_t)t * D + d;
#ifdef NO_RESIDUAL
    vec sum = 0.0f;
#else
    vec sum = LOAD_VEC(Y_TYPE, residual, at);
#endif
    for (uint k = 0; k < K; ++k) {
      const size_t entry = (size_t)t * K + k;
#ifdef NO_WEIGHTS
      const float weight = 1.0f;
#else
      const float weight = weights[entry];
#endif
      sum = fma((vec)(weight), LOAD_VEC(X_TYPE, x, (size_t)slots[entry] * D + d), sum);
    }
    STORE_VEC(Y_TYPE, y, (long)at, sum);
  }
}

__attribute__((reqd_work_group_size(GROUP, 1, 1))) __kernel void combine_backward(
    __global STORED(X_TYPE)* dx, __global float* dweights, __global const STORED(Y_TYPE)* dy,
    __global const STORED(X_TYPE)* x, __global const float* weights, __global const int* entries,
    uint K, uint D) {
  const uint slot = get_group_id(0);
  const int entry = entries[slot];
  const int is_used = entry >= 0;
  const uint of = is_used ? entry : 0;
  const size_t from = (size_t)(of / K) * D, to = (size_t)slot * D;
  const float weight = weights[of];
  vec sums = 0.0f;
  for (uint d = get_local_id(0); d < D; d += GROUP) {
    vec share = 0.0f;
    if (is_used) {
      const vec of_row = LOAD_VEC(Y_TYPE, dy, from + d);
      sums = fma(of_row, LOAD_VEC(X_TYPE, x, to + d), sums);
      share = weight * of_row;
    }
    STORE_VEC(X_TYPE, dx, (long)(to + d), share);
  }
  const float sum = sum_of_lanes(sums);
#if GROUP > 1
  __local float scratch[TEAM_SCRATCH(1)];
  const float total = group_total(sum, scratch);
#else
  const float total = sum;
#endif
  if (get_local_id(0) == 0 && is_used) dweights[of] = total;
}
