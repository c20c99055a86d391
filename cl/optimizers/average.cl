// average: the exponential moving average of parameters.
//
//   average = decay average + (1 - decay) p
//
// Shapes  average, p [n]
// Types   f32
// Work    item i of the grid owns the elements i, i + items of the grid, ...
// Local   none
// Cost    2 n reads, n writes; memory-bound
// Numerics  computed as average + (1 - decay) (p - average): equal values stay as they are.
//! clc: build GROUP=256
//! clc: budget on gfx90a registers<=32 spills=0
#ifndef GROUP
#error "GROUP: work-items of a group"
#endif

__attribute__((reqd_work_group_size(GROUP, 1, 1)))
__kernel void average_update(__global float* restrict average, __global const float* restrict p,
                             float rest, long n) {
  for (long i = (long)get_global_id(0); i < n; i += (long)get_global_size(0)) {
    average[i] += rest * (p[i] - average[i]);
  }
}
