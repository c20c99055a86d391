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
// Numerics  bf16_values.clh
#include "bf16_values16.clh"
#include "group_range.clh"

__attribute__((reqd_work_group_size(1, 1, 1))) __kernel void cast_to_bf16(
    __global ushort* y, __global const float* x, long n) {
  const long end = group_end(n / 16);
  for (long b = group_begin(n / 16); b < end; ++b) {
    vstore16(bf16_of_16(vload16(b, x)), b, y);
  }
  if (get_group_id(0) + 1 < get_num_groups(0)) return;
  for (long i = n / 16 * 16; i < n; ++i) y[i] = bf16_of(x[i]);
}

__attribute__((reqd_work_group_size(1, 1, 1))) __kernel void cast_from_bf16(
    __global float* y, __global const ushort* x, long n) {
  const long end = group_end(n / 16);
  for (long b = group_begin(n / 16); b < end; ++b) {
    vstore16(float16_of_bf16(vload16(b, x)), b, y);
  }
  if (get_group_id(0) + 1 < get_num_groups(0)) return;
  for (long i = n / 16 * 16; i < n; ++i) y[i] = float_of_bf16(x[i]);
}
