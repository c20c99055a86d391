// softmax, portable, over the last dimension: y_i = exp(x_i - max x) / sum_j exp(x_j - max x).
// backward: dx_i = y_i (dy_i - sum_j dy_j y_j).
// Shapes: x, y, dy, dx [rows, width]
// Types: f32
// Work: a work-group of GROUP items owns every get_num_groups(0)-th row; its items take the columns
//   in turn (item, item + GROUP, ...), so that neighbours read neighbours
// Local: one float an item, for the trees
// Cost: forward reads x, writes y (and reads both again from the cache): 4 flops and an exp an
//   element; backward reads dy and y, writes dx: 4 flops an element
// Numerics: the largest element is subtracted first, so nothing overflows and the sum is at least
//   1; float sums by one item and then by a tree, in a fixed order. Each element is read before it
//   is written, by the same item: y may be x, dx may be dy
#include "group_reduce.clh"

__kernel void softmax_forward(__global float* y, __global const float* x, long rows, int width) {
  __local float scratch[GROUP];
  const int item = (int)get_local_id(0);
  for (long row = get_group_id(0); row < rows; row += get_num_groups(0)) {
    __global const float* in = x + row * width;
    __global float* out = y + row * width;
    float top = -INFINITY;
    for (int i = item; i < width; i += GROUP) top = fmax(top, in[i]);
    top = group_max(top, scratch);
    float sum = 0.0f;
    for (int i = item; i < width; i += GROUP) {
      const float e = exp(in[i] - top);
      out[i] = e;
      sum += e;
    }
    const float scale = 1.0f / group_sum(sum, scratch);
    for (int i = item; i < width; i += GROUP) out[i] *= scale;
  }
}

__kernel void softmax_backward(__global float* dx, __global const float* dy,
                               __global const float* y, long rows, int width) {
  __local float scratch[GROUP];
  const int item = (int)get_local_id(0);
  for (long row = get_group_id(0); row < rows; row += get_num_groups(0)) {
    const long at = row * width;
    float sum = 0.0f;
    for (int i = item; i < width; i += GROUP) sum = fma(dy[at + i], y[at + i], sum);
    sum = group_sum(sum, scratch);
    for (int i = item; i < width; i += GROUP) dx[at + i] = y[at + i] * (dy[at + i] - sum);
  }
}
