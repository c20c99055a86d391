// roofline_peaks_barrier: what a barrier of a work-group takes, measured by one that does nothing
// else.
//
//   `rounds` times: an item's value to local memory, a barrier, its neighbour's back, a barrier
//
// Shapes  out [GROUP]
// Types   f32
// Work    one work-group of GROUP items
// Local   GROUP floats
// Cost    2 barriers a round
// Numerics  of no interest: values go round
//! clc: build GROUP=256
//! clc: budget on gfx90a registers<=32 spills=0
#ifndef GROUP
#error "GROUP: work-items of the group"
#endif

__attribute__((reqd_work_group_size(GROUP, 1, 1)))
__kernel void roofline_peaks_barrier(__global float* out, long rounds) {
  __local float values[GROUP];
  const int item = (int)get_local_id(0);
  float value = (float)item;
  for (long i = 0; i < rounds; ++i) {
    values[item] = value;
    barrier(CLK_LOCAL_MEM_FENCE);  // all values are there
    value = values[item + 1 < GROUP ? item + 1 : 0];
    barrier(CLK_LOCAL_MEM_FENCE);  // all have read before the next round overwrites
  }
  out[item] = value;
}
