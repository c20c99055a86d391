// embedding_noise: x[t, d] += scale[t] * u, u uniform in [-1, 1): the noise of NEFTune (Jain et al.,
// 2023).
//
//   u is a function of counters only: of seed, step, t and d
// Shapes  x [T, D], scale [T], seed_and_step [2]
// Types   f32, counters u32
// Work    an item owns elements 2 i and 2 i + 1 of the rows get_global_id(1), + get_global_size(1),
//         ...; it draws both from one call of the generator
// Local   none
// Cost    8 T D bytes, about 45 integer operations for two elements
// Numerics  one rounding; u is a multiple of 2^-23. The generator is Philox2x32-10 (philox.clh), keyed
//         with its own result for seed and step
//! clc: build
//! clc: budget on gfx90a registers<=32 spills=0
#include "philox.clh"

#define SITE 0x4e454654u  // distinguishes the key from those of other uses of a seed

__kernel void embedding_noise(__global float* x, __global const float* scale,
                              __global const uint* seed_and_step, uint T, uint D) {
  const uint d = 2 * (uint)get_global_id(0);
  if (d >= D) return;
  const uint key = philox2x32((uint2)(seed_and_step[0], seed_and_step[1]), SITE).x;
  for (uint t = (uint)get_global_id(1); t < T; t += (uint)get_global_size(1)) {
    const uint2 words = philox2x32((uint2)(d, t), key);
    __global float* at = x + (size_t)t * D + d;
    at[0] += scale[t] * (2.0f * uniform_of(words.x) - 1.0f);
    if (d + 1 < D) at[1] += scale[t] * (2.0f * uniform_of(words.y) - 1.0f);
  }
}
