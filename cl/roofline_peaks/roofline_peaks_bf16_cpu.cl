// roofline_peaks_bf16_cpu: measures the peak of dot products of bf16 pairs on CPUs with
// avx512_bf16.
//
//   roofline_peaks_dots  CHAINS independent chains a <- a + x.even y.even + x.odd y.odd of 16
//                        lanes, `steps` long
//
// Shapes  out [groups] vectors of 16
// Types   x, y: one pair of bf16, the same for all lanes (bf16_pairs_cpu.clh); sums f32
// Work    every group of one item computes its own chains
// Local   none
// Cost    4 * 16 * CHAINS flops per group and step
// Numerics  not relevant; pairs (p, -p) of x and equal ones of y leave the sums unchanged
//! clc: build on avx512_bf16: CHAINS=12
#include "bf16_pairs_cpu.clh"

// The number of chains is that of roofline_peaks_cpu.cl.
#if CHAINS != 12
#error "CHAINS must be 12: the chains are written out"
#endif
BF16_TARGET void run_chains(__global float16* out, long steps, uint16 x, uint16 y) {
  float16 a0 = 0.0f, a1 = 0.1f, a2 = 0.2f, a3 = 0.3f, a4 = 0.4f, a5 = 0.5f;
  float16 a6 = 0.6f, a7 = 0.7f, a8 = 0.8f, a9 = 0.9f, a10 = 1.0f, a11 = 1.1f;
  for (long i = 0; i < steps; ++i) {
    a0 = dot_pairs(a0, x, y);
    a1 = dot_pairs(a1, x, y);
    a2 = dot_pairs(a2, x, y);
    a3 = dot_pairs(a3, x, y);
    a4 = dot_pairs(a4, x, y);
    a5 = dot_pairs(a5, x, y);
    a6 = dot_pairs(a6, x, y);
    a7 = dot_pairs(a7, x, y);
    a8 = dot_pairs(a8, x, y);
    a9 = dot_pairs(a9, x, y);
    a10 = dot_pairs(a10, x, y);
    a11 = dot_pairs(a11, x, y);
  }
  *out = ((a0 + a1) + (a2 + a3)) + ((a4 + a5) + (a6 + a7)) + ((a8 + a9) + (a10 + a11));
}

__attribute__((reqd_work_group_size(1, 1, 1))) __kernel void roofline_peaks_dots(
    __global float16* out, long steps, uint x, uint y) {
  run_chains(out + get_group_id(0), steps, (uint16)x, (uint16)y);
}
