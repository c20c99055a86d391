// roofline_peaks_matrix: measures the peak of the matrix units of AMD's and Intel's GPUs, with
// operands in registers.
//
//   roofline_peaks_products  CHAINS independent sums [16, 16] += a [16, 16] b [16, 16] for each
//                            sub-group, `steps` times
//
// Shapes  out [items]
// Types   a, b bf16; sums f32
// Work    every sub-group computes its own chains, from one a and one b
// Local   none
// Cost    2 * 16 * 16 * 16 * CHAINS flops per sub-group and step
// Numerics  not relevant; operands have random bits and magnitudes from a half to one
//! clc: build on mfma: MFMA
//! clc: build on wmma_gfx11: WMMA_GFX11
//! clc: build on wmma_gfx12: WMMA_GFX12
//! clc: build on xmx: XMX -cl-intel-256-GRF-per-thread
#include "matrix/matrix_unit.clh"

#define CHAINS 4
#define SUBGROUPS 4

uint scrambled(uint x) {
  x = (x ^ x >> 16) * 0x7feb352dU;
  x = (x ^ x >> 15) * 0x846ca68bU;
  return x ^ x >> 16;
}
uint pair_of(uint x) { return (scrambled(x) & 0x807F807FU) | 0x3F003F00U; }

SUBGROUP_OF_LANES __attribute__((reqd_work_group_size(SUBGROUPS * LANES, 1, 1))) __kernel void
roofline_peaks_products(__global float* out, long steps) {
  MATRIX_UNIT(unit, SUBGROUPS);
  const uint item = (uint)get_global_id(0) * 16;
  Left left;
  Right right;
  UNROLL for (uint p = 0; p < LEFT_PAIRS; ++p) left.pair[p] = pair_of(item + p);
  UNROLL for (uint p = 0; p < RIGHT_PAIRS; ++p) right.pair[p] = pair_of(item + 8 + p);
  Sums sums[CHAINS] = {0};
  for (long step = 0; step < steps; ++step) {
    UNROLL for (uint i = 0; i < CHAINS; ++i) multiply(unit, &sums[i], &left, &right);
  }
  float all = 0.0f;
  UNROLL for (uint i = 0; i < CHAINS; ++i) {
    UNROLL for (uint j = 0; j < SUM_ROWS * SUM_COLUMNS; ++j) {
      all += sums[i].v[j / SUM_COLUMNS][j % SUM_COLUMNS];
    }
  }
  out[get_global_id(0)] = all;
}
