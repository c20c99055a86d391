// quant: dequantises a frozen weight matrix to floats: y[n, k] = w[n, k].
//
// Shapes  y [N, K] f32, w [N, K]
// Types   w in any storage type (quant.clh)
// Work    dequantise: a work-item owns column k (dimension 0) and takes rows (dimension 1) with a
//         grid stride. dequantise_rows (CPU devices): a work-group of one item owns rows_per_group
//         rows.
// Local   none
// Cost    reads w once, writes 4 N K bytes
// Numerics  exact for q4_z and q8_z; exact except for one rounding for q8_0, q4_0, q5_0, mxfp4, nf4
//         and the plain types; one or two roundings for the others.
//! clc: build WEIGHT_TYPE={WEIGHT_F32,WEIGHT_F16,WEIGHT_BF16,WEIGHT_Q4_1,WEIGHT_Q6_K,WEIGHT_Q8_0}
//! clc: build WEIGHT_TYPE={WEIGHT_Q2_K,WEIGHT_Q3_K,WEIGHT_IQ4_NL,WEIGHT_IQ4_XS,WEIGHT_MXFP4}
//! clc: build WEIGHT_TYPE={WEIGHT_TQ1_0,WEIGHT_TQ2_0,WEIGHT_NF4,WEIGHT_Q4_Z,WEIGHT_Q8_Z}
//! clc: build WEIGHT_TYPE={WEIGHT_F32,WEIGHT_BF16,WEIGHT_Q4_0,WEIGHT_Q4_1,WEIGHT_Q8_0}
//!     WEIGHT_PACKED
//! clc: budget on gfx90a registers<=96 spills<=10
#include "quant/quant_block32.clh"

__kernel void dequantise(__global float* y, __global const uchar* w, uint N, uint K) {
  const uint k = get_global_id(0);
  if (k >= K) return;
  for (uint n = get_global_id(1); n < N; n += get_global_size(1)) {
    y[(size_t)n * K + k] = weight_at(weight_row(w, n, K), k);
  }
}

__attribute__((reqd_work_group_size(1, 1, 1))) __kernel void dequantise_rows(
    __global float* y, __global const uchar* w, uint N, uint K, uint rows_per_group) {
  const uint begin = get_group_id(0) * rows_per_group;
  const uint end = min(N, begin + rows_per_group);
  for (uint n = begin; n < end; ++n) {
    __global const uchar* row = weight_row(w, n, K);
    __global float* out = y + (size_t)n * K;
    uint k = 0;
    for (; k + 32 <= K; k += 32) {
      float16 lo, hi;
      weight_block32(row, k, &lo, &hi);
      vstore16(lo, 0, out + k);
      vstore16(hi, 1, out + k);
    }
    for (; k < K; ++k) out[k] = weight_at(row, k);
  }
}
