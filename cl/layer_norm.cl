// layer_norm, portable, over the last dimension: y = n w + bias, n = (x - mean(x)) r,
// r = 1 / sqrt(var(x) + epsilon).
// backward: dx = residual + r (g - mean(g) - n mean(g n)), g = dy w.
// Shapes: x, y, dy, dx, residual [rows, width]; w, bias [width]
// Types: f32
// Work: a work-group of GROUP items owns every get_num_groups(0)-th row; its items take the columns
//   in turn (item, item + GROUP, ...), so that neighbours read neighbours
// Local: one float an item, for the tree sums
// Cost: forward reads x (three times, twice from the cache), w and bias, writes y: 8 flops an
//   element; backward reads dy, x, w and residual: 16 flops an element
// Numerics: the variance is the mean square of differences from the mean (a pass of its own), so a
//   large mean costs no digits; float sums in a fixed order. A row is only written after its sums
//   are complete, each element by the item that reads it last: y may be x, dx may be dy or residual
#include "group_reduce.clh"

// The row's mean and r, the same in every item.
float2 row_statistics(__global const float* x, int width, float epsilon, __local float* scratch) {
  const int item = (int)get_local_id(0);
  float sum = 0.0f;
  for (int i = item; i < width; i += GROUP) sum += x[i];
  const float mean = group_sum(sum, scratch) / (float)width;
  float squares = 0.0f;
  for (int i = item; i < width; i += GROUP) {
    const float difference = x[i] - mean;
    squares = fma(difference, difference, squares);
  }
  return (float2)(mean, rsqrt(group_sum(squares, scratch) / (float)width + epsilon));
}

__kernel void layer_norm_forward(__global float* y, __global const float* x,
                                 __global const float* w, __global const float* bias, long rows,
                                 int width, float epsilon) {
  __local float scratch[GROUP];
  const int item = (int)get_local_id(0);
  for (long row = get_group_id(0); row < rows; row += get_num_groups(0)) {
    const long at = row * width;
    const float2 statistics = row_statistics(x + at, width, epsilon, scratch);
    for (int i = item; i < width; i += GROUP) {
      y[at + i] = fma((x[at + i] - statistics.x) * statistics.y, w[i], bias[i]);
    }
  }
}

__kernel void layer_norm_backward(__global float* dx, __global const float* dy,
                                  __global const float* x, __global const float* w,
                                  __global const float* residual, int has_residual, long rows,
                                  int width, float epsilon) {
  __local float scratch[GROUP];
  const int item = (int)get_local_id(0);
  for (long row = get_group_id(0); row < rows; row += get_num_groups(0)) {
    const long at = row * width;
    const float2 statistics = row_statistics(x + at, width, epsilon, scratch);
    const float mean = statistics.x;
    const float scale = statistics.y;
    float sum = 0.0f;
    float products = 0.0f;
    for (int i = item; i < width; i += GROUP) {
      const float g = dy[at + i] * w[i];
      sum += g;
      products = fma(g, (x[at + i] - mean) * scale, products);
    }
    const float mean_g = group_sum(sum, scratch) / (float)width;
    const float along_n = group_sum(products, scratch) / (float)width;
    for (int i = item; i < width; i += GROUP) {
      const float n = (x[at + i] - mean) * scale;
      const float d = scale * (dy[at + i] * w[i] - mean_g - n * along_n);
      dx[at + i] = has_residual ? residual[at + i] + d : d;
    }
  }
}
