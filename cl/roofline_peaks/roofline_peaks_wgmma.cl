// roofline_peaks_wgmma: measures the peak of a warp group's products on sm_90, with operands in
// shared memory.
//
//   roofline_peaks_products  sums [64, 256] += a [64, 64] b [256, 64]^T for each warp group,
//                            `steps` times
//
// Shapes  out [groups * 256]
// Types   a, b bf16; sums f32
// Work    a work-group of two warp groups; each has its own a, and they share b
// Local   48 KB: a twice, and b, in boxes of 64 steps of K (hopper.clh)
// Cost    2 * 2 * 64 * 256 * 64 flops per work-group and step
// Numerics  not relevant; operands have random bits, to draw the power of a real product, which
//         lowers the clock, and magnitudes from a half to one
//! clc: build on wgmma:
#include "hopper/hopper.clh"
#include "hopper/hopper_products.clh"

#define THREADS 256
#define OPERAND_WORDS (3 * 4096) /* each word is a pair of bf16 */

uint scrambled(uint x) {
  x = (x ^ x >> 16) * 0x7feb352dU;
  x = (x ^ x >> 15) * 0x846ca68bU;
  return x ^ x >> 16;
}

__attribute__((reqd_work_group_size(THREADS, 1, 1))) __kernel void roofline_peaks_products(
    __global float* out, long steps) {
  HOPPER_KERNEL;
  __local uint operands[OPERAND_WORDS] __attribute__((aligned(1024)));
  const uint thread = (uint)get_local_id(0);
  for (uint i = thread; i < OPERAND_WORDS; i += THREADS) {
    operands[i] = (scrambled(i) & 0x807F807FU) | 0x3F003F00U;
  }
  asm volatile("fence.proxy.async;" ::: "memory");  // makes the stores visible to wgmma
  barrier(CLK_LOCAL_MEM_FENCE);
  const uint at = shared_address(operands);
  const ulong a = operand_at(at + thread / 128 * 8192), b = operand_at(at + 16384);
  float sums[128];
  for (long step = 0; step < steps; ++step) {
    WGMMA_FENCE;
    WGMMA_SS(256)(sums, a, b, step != 0, "0");
    WGMMA_SS(256)(sums, a + NEXT_STEPS, b + NEXT_STEPS, 1, "0");
    WGMMA_SS(256)(sums, a + 2 * NEXT_STEPS, b + 2 * NEXT_STEPS, 1, "0");
    WGMMA_SS(256)(sums, a + 3 * NEXT_STEPS, b + 3 * NEXT_STEPS, 1, "0");
    WGMMA_COMMIT;
    WGMMA_WAIT_GROUP_1;
  }
  WGMMA_WAIT_0(256)(sums);
  out[get_global_id(0)] = sums[0] + sums[127];
}
