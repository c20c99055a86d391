// rms_norm, portable: y = x r w, r = 1 / sqrt(mean(x^2) + epsilon) over the last dimension.
// backward: dx = residual + r (g - x r^2 mean(g x)), g = dy w.
// Shapes: x, y, dy, dx, residual [T, D]; w [D]
// Types: f32
// Work: one work-group a row; its items take the columns in turn (item, item + group, ...), so that
//   neighbours read neighbours
// Local: scratch, one float an item, for the tree sums
// Cost: forward reads x twice (the second time from the cache) and w, writes y: 4 flops an element;
//   backward reads dy, x twice, residual once: 11 flops an element
// Numerics: float sums, of columns by one item and then by a tree; the order is fixed. A row is
//   only written after its sums are complete, and each element by the item that reads it last: y
//   may be x, dx may be dy or residual
#include "group_reduce.clh"

__kernel void rms_norm_forward(__global float* y, __global const float* x, __global const float* w,
                               int width, float epsilon, __local float* scratch) {
  const size_t row = get_group_id(0) * (size_t)width;
  const int first = (int)get_local_id(0);
  const int step = (int)get_local_size(0);
  float squares = 0.0f;
  for (int i = first; i < width; i += step) squares = fma(x[row + i], x[row + i], squares);
  const float scale = rsqrt(group_sum(squares, scratch) / (float)width + epsilon);
  for (int i = first; i < width; i += step) y[row + i] = x[row + i] * scale * w[i];
}

__kernel void rms_norm_backward(__global float* dx, __global const float* dy,
                                __global const float* x, __global const float* w,
                                __global const float* residual, int has_residual, int width,
                                float epsilon, __local float* scratch) {
  const size_t row = get_group_id(0) * (size_t)width;
  const int first = (int)get_local_id(0);
  const int step = (int)get_local_size(0);
  float squares = 0.0f;
  float products = 0.0f;
  for (int i = first; i < width; i += step) {
    squares = fma(x[row + i], x[row + i], squares);
    products = fma(dy[row + i] * w[i], x[row + i], products);
  }
  const float scale = rsqrt(group_sum(squares, scratch) / (float)width + epsilon);
  const float along_x = group_sum(products, scratch) / (float)width * scale * scale;
  for (int i = first; i < width; i += step) {
    const float d = scale * fma(-along_x, x[row + i], dy[row + i] * w[i]);
    dx[row + i] = has_residual ? residual[row + i] + d : d;
  }
}
