// rms_norm, portable: y = x r w, r = 1 / sqrt(mean(x^2) + epsilon) over the last dimension.
// backward: dx = residual + r (g - x r^2 mean(g x)), g = dy w.
// Shapes: x, y, dy, dx, residual [rows, width]; w [width]
// Types: f32
// Work: a work-group of GROUP items owns every get_num_groups(0)-th row; its items take the columns
//   in turn (item, item + GROUP, ...), so that neighbours read neighbours
// Local: one float an item, for the tree sums
// Cost: forward reads x twice (the second time from the cache) and w, writes y: 4 flops an element;
//   backward reads dy, x twice, residual once: 11 flops an element
// Numerics: float sums, of columns by one item and then by a tree; the order is fixed. A row is
//   only written after its sums are complete, and each element by the item that reads it last: y
//   may be x, dx may be dy or residual
#include "group_reduce.clh"

__kernel void rms_norm_forward(__global float* y, __global const float* x, __global const float* w,
                               long rows, int width, float epsilon) {
  __local float scratch[GROUP];
  const int item = (int)get_local_id(0);
  for (long row = get_group_id(0); row < rows; row += get_num_groups(0)) {
    __global const float* in = x + row * width;
    __global float* out = y + row * width;
    float squares = 0.0f;
    for (int i = item; i < width; i += GROUP) squares = fma(in[i], in[i], squares);
    const float scale = rsqrt(group_sum(squares, scratch) / (float)width + epsilon);
    for (int i = item; i < width; i += GROUP) out[i] = in[i] * scale * w[i];
  }
}

__kernel void rms_norm_backward(__global float* dx, __global const float* dy,
                                __global const float* x, __global const float* w,
                                __global const float* residual, int has_residual, long rows,
                                int width, float epsilon) {
  __local float scratch[GROUP];
  const int item = (int)get_local_id(0);
  for (long row = get_group_id(0); row < rows; row += get_num_groups(0)) {
    const long at = row * width;
    float squares = 0.0f;
    float products = 0.0f;
    for (int i = item; i < width; i += GROUP) {
      squares = fma(x[at + i], x[at + i], squares);
      products = fma(dy[at + i] * w[i], x[at + i], products);
    }
    const float scale = rsqrt(group_sum(squares, scratch) / (float)width + epsilon);
    const float along_x = group_sum(products, scratch) / (float)width * scale * scale;
    for (int i = item; i < width; i += GROUP) {
      const float d = scale * fma(-along_x, x[at + i], dy[at + i] * w[i]);
      dx[at + i] = has_residual ? residual[at + i] + d : d;
    }
  }
}
