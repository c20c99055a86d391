// cast, portable: a tensor in another float type.
//
//   cast_to_bf16    y = the nearest bf16 to x, ties to even; a NaN stays one
//   cast_from_bf16  y = x
// Shapes  [n] both
// Types   f32, and bf16 as the upper half of an f32's bits
// Work    one work-item an element
// Local   none
// Cost    6 bytes an element
// Numerics  subnormals are kept: integer work only
__kernel void cast_to_bf16(__global ushort* y, __global const float* x, long n) {
  const size_t i = get_global_id(0);
  if ((long)i >= n) return;
  const uint bits = as_uint(x[i]);
  const uint rounded = bits + 0x7fffu + ((bits >> 16) & 1u);
  const int is_nan = (bits & 0x7fffffffu) > 0x7f800000u;
  y[i] = (ushort)((is_nan ? bits | 0x400000u : rounded) >> 16);
}

__kernel void cast_from_bf16(__global float* y, __global const ushort* x, long n) {
  const size_t i = get_global_id(0);
  if ((long)i < n) y[i] = as_float((uint)x[i] << 16);
}
