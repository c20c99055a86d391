// dropout: y[i] = keep(i) x[i] / (1 - p), or y[i] += the same.
//
//   keep(i)   hash(i, seed, step, site) >= p 2^32: the mask is a function of counters only
// Shapes  x, y [n], seed_and_step [2]
// Types   f32, counters u32
// Work    dropout: at most 2^30 work-items; each processes every get_global_size(0)-th element.
//         dropout_range (CPU devices): a work-group of one item owns items_per_group elements.
// Local   none
// Cost    8 n bytes (12 n if accumulated), about 12 integer operations an element
// Numerics  one rounding; the hash is two rounds of the 32-bit finaliser "lowbias32" (C. Wellons,
//         Prospecting for Hash Functions, 2018), keyed between the rounds
//! clc: build
//! clc: budget on gfx90a registers<=32 spills=0
#include "rowwise/counter_hash.clh"

__kernel void dropout(__global float* y, __global const float* x,
                      __global const uint* seed_and_step, ulong n, uint site, uint threshold,
                      float factor, uint accumulate) {
  for (ulong i = get_global_id(0); i < n; i += get_global_size(0)) {
    const uint random = mix(mix((uint)i) ^ key_of(seed_and_step, site, (uint)(i >> 32)));
    const float value = random >= threshold ? factor * x[i] : 0.0f;
    y[i] = accumulate ? y[i] + value : value;
  }
}

__attribute__((reqd_work_group_size(1, 1, 1))) __kernel void dropout_range(
    __global float* y, __global const float* x, __global const uint* seed_and_step, ulong n,
    uint site, uint threshold, float factor, uint accumulate, ulong items_per_group) {
  const uint16 lane = (uint16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  const ulong begin = get_group_id(0) * items_per_group;  // a multiple of 16
  const ulong end = min(n, begin + items_per_group);
  ulong i = begin;
  for (; i + 16 <= end; i += 16) {
    const uint key = key_of(seed_and_step, site, (uint)(i >> 32));
    const uint16 random = mix16(mix16((uint)i + lane) ^ key);
    const float16 scaled = vload16(0, x + i) * factor;
    float16 value = select((float16)0.0f, scaled, random >= threshold);
    if (accumulate) value += vload16(0, y + i);
    vstore16(value, 0, y + i);
  }
  for (; i < end; ++i) {
    const uint random = mix(mix((uint)i) ^ key_of(seed_and_step, site, (uint)(i >> 32)));
    const float value = random >= threshold ? factor * x[i] : 0.0f;
    y[i] = accumulate ? y[i] + value : value;
  }
}
