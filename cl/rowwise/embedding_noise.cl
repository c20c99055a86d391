// embedding_noise: x[t, d] += scale[t] * u, u uniform in [-1, 1): the noise of NEFTune (Jain et al.,
// 2023).
//
//   u is a function of counters only: of seed, step and the element (counter_hash.clh)
// Shapes  x [T, D], scale [T], seed_and_step [2]
// Types   f32, counters u32
// Work    an item owns elements 16 i to 16 i + 15 of the rows get_global_id(1), +
//         get_global_size(1), ...
// Local   none
// Cost    8 T D bytes, about 12 integer operations an element
// Numerics  one rounding; u is a multiple of 2^-23
//! clc: build
//! clc: budget on gfx90a registers<=96 spills=0
#include "rowwise/counter_hash.clh"

#define SITE 0x4e454654u  // no site of dropout

__kernel void embedding_noise(__global float* x, __global const float* scale,
                              __global const uint* seed_and_step, uint T, uint D) {
  const uint16 lane = (uint16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  const uint d = 16 * (uint)get_global_id(0);
  if (d >= D) return;
  for (uint t = (uint)get_global_id(1); t < T; t += (uint)get_global_size(1)) {
    const ulong at = (ulong)t * D + d;
    const uint key = key_of(seed_and_step, SITE, (uint)(at >> 32));
    const uint16 words = mix16(mix16((uint)at + lane) ^ key);
    const float16 u = convert_float16(words >> 8) * 0x1p-23f - 1.0f;
    if (d + 16 <= D) {
      vstore16(vload16(0, x + at) + scale[t] * u, 0, x + at);
    } else {
      const float each[16] = {u.s0, u.s1, u.s2, u.s3, u.s4, u.s5, u.s6, u.s7,
                              u.s8, u.s9, u.sa, u.sb, u.sc, u.sd, u.se, u.sf};
      for (uint i = 0; d + i < D; ++i) x[at + i] += scale[t] * each[i];
    }
  }
}
