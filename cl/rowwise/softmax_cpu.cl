// softmax for CPU devices, over the last dimension:
//   y_i = exp(x_i - max x) / sum_j exp(x_j - max x).
// backward: dx_i = y_i (dy_i - sum_j dy_j y_j).
// Shapes: x, y, dy, dx [rows, width]
// Types: f32
// Work: a work-group of one item owns an even share of the rows; 16 columns at a time
// Local: none; a row stays in the L1 cache between its passes
// Cost: forward reads x and writes y, 4 flops and an exp per element; backward reads dy and y and
//   writes dx, 4 flops per element
// Numerics: the largest element is subtracted first, so nothing overflows and the sum is at least
//   1; float sums in two accumulators of 16 lanes, then a tree, in a fixed order. Each element is
//   read before it is written: y may alias x, and dx may alias dy
//! clc: build on cpu:
#include "float16_math.clh"
#include "group_range.clh"

float row_max(__global const float* x, int width) {
  float16 even = -INFINITY;
  float16 odd = -INFINITY;
  int i = 0;
  for (; i + 32 <= width; i += 32) {
    const float16 a = vload16(0, x + i);
    const float16 b = vload16(1, x + i);
    even = MAX16(a, even);
    odd = MAX16(b, odd);
  }
  for (; i < width; i += 16) {
    const float16 a =
        i + 16 <= width ? vload16(0, x + i) : load16_tail(x + i, width - i, -INFINITY);
    even = MAX16(a, even);
  }
  return max16(MAX16(even, odd));
}

// Writes y = exp(x - max_x) and returns the sum of y.
float row_exp(__global float* y, __global const float* x, int width, float max_x) {
  float16 even = 0.0f;
  float16 odd = 0.0f;
  int i = 0;
  for (; i + 32 <= width; i += 32) {
    const float16 a = exp16(vload16(0, x + i) - max_x);
    const float16 b = exp16(vload16(1, x + i) - max_x);
    even += a;
    odd += b;
    vstore16(a, 0, y + i);
    vstore16(b, 1, y + i);
  }
  for (; i + 16 <= width; i += 16) {
    const float16 a = exp16(vload16(0, x + i) - max_x);
    even += a;
    vstore16(a, 0, y + i);
  }
  if (i < width) {
    const float16 a = exp16(load16_tail(x + i, width - i, -INFINITY) - max_x);
    odd += a;
    store16_tail(a, y + i, width - i);
  }
  return sum16(even + odd);
}

float row_dot(__global const float* a, __global const float* b, int width) {
  float16 even = 0.0f;
  float16 odd = 0.0f;
  int i = 0;
  for (; i + 32 <= width; i += 32) {
    even = fma(vload16(0, a + i), vload16(0, b + i), even);
    odd = fma(vload16(1, a + i), vload16(1, b + i), odd);
  }
  for (; i + 16 <= width; i += 16) even = fma(vload16(0, a + i), vload16(0, b + i), even);
  float sum = sum16(even + odd);
  for (; i < width; ++i) sum = fma(a[i], b[i], sum);
  return sum;
}

__attribute__((reqd_work_group_size(1, 1, 1))) __kernel void softmax_forward(
    __global float* y, __global const float* x, long rows, int width) {
  const long end = group_end(rows);
  for (long row = group_begin(rows); row < end; ++row) {
    __global const float* in = x + row * width;
    __global float* out = y + row * width;
    const float scale = 1.0f / row_exp(out, in, width, row_max(in, width));
    int i = 0;
    for (; i + 16 <= width; i += 16) vstore16(vload16(0, out + i) * scale, 0, out + i);
    for (; i < width; ++i) out[i] *= scale;
  }
}

__attribute__((reqd_work_group_size(1, 1, 1))) __kernel void softmax_backward(
    __global float* dx, __global const float* dy, __global const float* y, long rows, int width) {
  const long end = group_end(rows);
  for (long row = group_begin(rows); row < end; ++row) {
    const long at = row * width;
    const float sum = row_dot(dy + at, y + at, width);
    int i = 0;
    for (; i + 16 <= width; i += 16) {
      vstore16(vload16(0, y + at + i) * (vload16(0, dy + at + i) - sum), 0, dx + at + i);
    }
    for (; i < width; ++i) dx[at + i] = y[at + i] * (dy[at + i] - sum);
  }
}
