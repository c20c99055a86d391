// bf16_rows: converts a matrix of any storage type to bf16, row by row, for the matrix units.
//
//   out = bf16(scale * w)
// Shapes  w [R, K], out [R, stride], with stride at least K and, if R is not 1, a multiple of 8;
//         zeros past K
// Types   w in any storage type (quant.clh), out bf16
// Work    one work-item owns 8 elements
// Local   none
// Cost    reads w and writes out
// Numerics  rounded to nearest even
//! clc: build WEIGHT_TYPE={WEIGHT_F32,WEIGHT_BF16,WEIGHT_F16,WEIGHT_Q8_0}
//! clc: budget on gfx90a registers<=32 spills=0
#include "bf16_values.clh"
#include "quant/quant.clh"

__kernel void bf16_rows(__global ushort* out, __global const uchar* w, uint R, uint K, uint stride,
                        float scale) {
  const uint k0 = 8 * get_global_id(0), r = get_global_id(1);
  if (k0 >= stride || r >= R) return;
  __global const uchar* row = weight_row(w, r, K);
  ushort values[8];
  for (uint i = 0; i < 8; ++i) {
    values[i] = k0 + i < K ? bf16_of(scale * weight_at(row, k0 + i)) : 0;
  }
  if (k0 + 8 <= stride) {
    vstore8(vload8(0, values), 0, out + (size_t)r * stride + k0);
  } else {
    for (uint i = 0; k0 + i < stride; ++i) out[k0 + i] = values[i];
  }
}
