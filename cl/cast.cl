// cast, portable: a tensor in another float type.
//
//   cast_to_bf16    y = the nearest bf16 to x, ties to even; a NaN stays one
//   cast_from_bf16  y = x
// Shapes  [n] both
// Types   f32, and bf16 as the upper half of an f32's bits
// Work    one work-item an element
// Local   none
// Cost    6 bytes an element
// Numerics  bf16_values.clh
#include "bf16_values.clh"

__kernel void cast_to_bf16(__global ushort* y, __global const float* x, long n) {
  const size_t i = get_global_id(0);
  if ((long)i < n) y[i] = bf16_of(x[i]);
}

__kernel void cast_from_bf16(__global float* y, __global const ushort* x, long n) {
  const size_t i = get_global_id(0);
  if ((long)i < n) y[i] = float_of_bf16(x[i]);
}
