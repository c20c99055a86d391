// cast for CPU devices: a tensor in another float type.
//
//   cast_to_bf16    y = the nearest bf16 to x, ties to even; a NaN stays one
//   cast_from_bf16  y = x
// Shapes  [n] both
// Types   f32, and bf16 as the upper half of an f32's bits
// Work    a work-group of one item owns an even share of the whole blocks of 16; the last group
//         also owns the tail of n % 16
// Local   none
// Cost    6 bytes an element
// Numerics  subnormals are kept: integer work only
#include "group_range.clh"

ushort bf16_of(uint bits) {
  const uint rounded = bits + 0x7fffu + ((bits >> 16) & 1u);
  const int is_nan = (bits & 0x7fffffffu) > 0x7f800000u;
  return (ushort)((is_nan ? bits | 0x400000u : rounded) >> 16);
}

ushort16 bf16_of_16(uint16 bits) {
  const uint16 rounded = bits + 0x7fffu + ((bits >> 16) & 1u);
  const int16 is_nan = (bits & 0x7fffffffu) > (uint16)0x7f800000u;
  return convert_ushort16(select(rounded, bits | 0x400000u, is_nan) >> 16);
}

__attribute__((reqd_work_group_size(1, 1, 1))) __kernel void cast_to_bf16(
    __global ushort* y, __global const float* x, long n) {
  const long end = group_end(n / 16);
  for (long b = group_begin(n / 16); b < end; ++b) {
    vstore16(bf16_of_16(as_uint16(vload16(b, x))), b, y);
  }
  if (get_group_id(0) + 1 < get_num_groups(0)) return;
  for (long i = n / 16 * 16; i < n; ++i) y[i] = bf16_of(as_uint(x[i]));
}

__attribute__((reqd_work_group_size(1, 1, 1))) __kernel void cast_from_bf16(
    __global float* y, __global const ushort* x, long n) {
  const long end = group_end(n / 16);
  for (long b = group_begin(n / 16); b < end; ++b) {
    vstore16(as_float16(convert_uint16(vload16(b, x)) << 16), b, y);
  }
  if (get_group_id(0) + 1 < get_num_groups(0)) return;
  for (long i = n / 16 * 16; i < n; ++i) y[i] = as_float((uint)x[i] << 16);
}
