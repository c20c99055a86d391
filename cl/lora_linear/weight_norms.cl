// weight_norms: the squared norms of the rows of a frozen weight, out[n] = sum_k w[n, k]^2.
//
// Shapes  out [N] f32, w [N, K]
// Types   w in any storage type (quant.clh)
// Work    a work-group of ITEMS items owns a row at a time, with a grid stride; an item owns every
//         ITEMS-th block of 32 elements
// Local   ITEMS floats
// Cost    reads w once; 2 N K flops
// Numerics  f32 in a fixed order: 16 sums for each item, of K / (16 ITEMS) terms each; the terms
//         are positive, so the relative error is at most about (K / (16 ITEMS) + ITEMS) 2^-24
//! clc: build WEIGHT_TYPE={WEIGHT_F32,WEIGHT_F16,WEIGHT_BF16,WEIGHT_Q4_1,WEIGHT_Q6_K,WEIGHT_Q8_0}
//!     ITEMS={1,32}
//! clc: build WEIGHT_TYPE={WEIGHT_F32,WEIGHT_BF16,WEIGHT_Q4_0,WEIGHT_Q4_1,WEIGHT_Q8_0}
//!     WEIGHT_PACKED ITEMS={1,32}
//! clc: budget on gfx90a registers<=128 spills<=10
#ifndef ITEMS
#error "ITEMS: work-items of a row"
#endif
#include "quant/quant_block32.clh"

// The item's part of the sum of a row.
INLINED float squares_of_item(__global const uchar* row, uint K, uint item) {
  float16 sums = 0.0f;
  for (uint k = item * 32; k + 32 <= K; k += ITEMS * 32) {
    float16 lo, hi;
    weight_block32(row, k, &lo, &hi);
    sums = fma(lo, lo, sums);
    sums = fma(hi, hi, sums);
  }
  float lanes[16];
  vstore16(sums, 0, lanes);
  float sum = 0.0f;
  for (uint i = 0; i < 16; ++i) sum += lanes[i];
  for (uint k = K / 32 * 32 + item; k < K; k += ITEMS) {
    const float x = weight_at(row, k);
    sum = fma(x, x, sum);
  }
  return sum;
}

__attribute__((reqd_work_group_size(ITEMS, 1, 1))) __kernel void weight_norms(
    __global float* out, __global const uchar* w, uint N, uint K) {
  __local float sums[ITEMS];
  const uint item = get_local_id(0);
  for (uint n = get_group_id(0); n < N; n += get_num_groups(0)) {
    sums[item] = squares_of_item(weight_row(w, n, K), K, item);
    barrier(CLK_LOCAL_MEM_FENCE);  // all sums are written
    if (item == 0) {
      float all = 0.0f;
      for (uint i = 0; i < ITEMS; ++i) all += sums[i];
      out[n] = all;
    }
    barrier(CLK_LOCAL_MEM_FENCE);  // all sums are read before those of the next row
  }
}
