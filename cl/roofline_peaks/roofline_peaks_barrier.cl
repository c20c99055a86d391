// roofline_peaks_barrier: measures the time of a work-group barrier.
//
//   `rounds` times: store a value to local memory, barrier, load the neighbour's value, barrier
//
// Shapes  out [GROUP]
// Types   f32
// Work    one work-group of GROUP items
// Local   GROUP floats
// Cost    2 barriers per round
// Numerics  not relevant; values move from item to item
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
    barrier(CLK_LOCAL_MEM_FENCE);  // all values are written
    value = values[item + 1 < GROUP ? item + 1 : 0];
    barrier(CLK_LOCAL_MEM_FENCE);  // all values are read before the next round
  }
  out[item] = value;
}
