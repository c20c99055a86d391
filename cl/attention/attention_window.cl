// attention_window: the first key of each row under a sliding window.
//
//   y[t] = max(first[t], last[t] - window + 1)
// Shapes  y, first, last [T] i32: row t attends to the keys first[t] .. last[t]
// Types   i32
// Work    at most 2^20 work-items; each processes every get_global_size(0)-th row
// Local   none
// Cost    12 T bytes, once a step for all layers of that window
// Numerics integers; last[t] - window does not overflow: both are from 0 to 2^31 - 1
//! clc: build
//! clc: budget on gfx90a registers<=16 spills=0
__kernel void attention_window(__global int* y, __global const int* first,
                               __global const int* last, int window, int T) {
  for (int t = get_global_id(0); t < T; t += get_global_size(0)) {
    y[t] = max(first[t], last[t] - window + 1);
  }
}
