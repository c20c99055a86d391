// roofline_peaks_mma: measures the peak of a warp's products on sm_80 and later, with operands in
// registers.
//
//   roofline_peaks_products  CHAINS independent sums [16, 8] += a [16, 16] b [16, 8] for each warp,
//                            `steps` times
//
// Shapes  out [items]
// Types   a, b bf16; sums f32
// Work    every warp computes its own chains, from one a and one b
// Local   none
// Cost    2 * 16 * 8 * 16 * CHAINS flops per warp and step
// Numerics  not relevant; operands have random bits, to draw the power of a real product, which
//         lowers the clock, and magnitudes from a half to one
//! clc: build on mma:
#define CHAINS 8

uint scrambled(uint x) {
  x = (x ^ x >> 16) * 0x7feb352dU;
  x = (x ^ x >> 15) * 0x846ca68bU;
  return x ^ x >> 16;
}
uint pair_of(uint x) { return (scrambled(x) & 0x807F807FU) | 0x3F003F00U; }

__kernel void roofline_peaks_products(__global float* out, long steps) {
  const uint item = (uint)get_global_id(0) * 8;
  const uint4 a = (uint4)(pair_of(item), pair_of(item + 1), pair_of(item + 2), pair_of(item + 3));
  const uint2 b = (uint2)(pair_of(item + 4), pair_of(item + 5));
  float4 sums[CHAINS];
  for (uint i = 0; i < CHAINS; ++i) sums[i] = 0.0f;
  for (long step = 0; step < steps; ++step) {
#pragma unroll
    for (uint i = 0; i < CHAINS; ++i) {
      asm volatile(
          "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
          "{%8, %9}, {%0, %1, %2, %3};"
          : "+f"(sums[i].x), "+f"(sums[i].y), "+f"(sums[i].z), "+f"(sums[i].w)
          : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b.x), "r"(b.y));
    }
  }
  float4 all = 0.0f;
  for (uint i = 0; i < CHAINS; ++i) all += sums[i];
  out[get_global_id(0)] = all.x + all.y + all.z + all.w;
}
