// soft_cap for CPU devices: x = c tanh(x / c).
// Shapes: x as one flat range of n elements
// Types: f32
// Work: a work-group of one item owns an even share of the full blocks of 16; the last group also
//   owns the tail of n % 16
// Local: none
// Cost: reads and writes x; one tanh per element
// Numerics: tanh16, about 2 ulp
//! clc: build on cpu:
#include "group_range.clh"
#define SOFT_CAP cap
#include "soft_cap_cpu.clh"

float16 capped16(float16 x, float cap) {
  CAP_SCORES(x, 1.0f);
  return x;
}

__attribute__((reqd_work_group_size(1, 1, 1))) __kernel void soft_cap(__global float* x, float cap,
                                                                      long n) {
  const long blocks = n / 16, end = group_end(blocks);
  for (long i = group_begin(blocks); i < end; ++i) {
    vstore16(capped16(vload16(i, x), cap), i, x);
  }
  const int tail = (int)(n % 16);
  if (tail == 0 || get_group_id(0) + 1 < get_num_groups(0)) return;
  __global float* rest = x + blocks * 16;
  store16_tail(capped16(load16_tail(rest, tail, 0.0f), cap), rest, tail);
}
