// rms_norm for CPU devices: y = x r w, r = 1 / sqrt(mean(x^2) + epsilon) over the last dimension;
// rms_norm_forward_add: y = addend + factor x r w.
// backward: dx = residual + r (g - x r^2 mean(g x)), g = dy w; rms_norm_backward_recompute also
//   writes y.
// Shapes: x, y, addend, dy, dx, residual [rows, width]; w [width]
// Types: f32
// Work: a work-group of one item owns an even share of the rows; 16 columns at a time
// Local: none; a row stays in the L1 cache between its two passes
// Cost: forward reads x and w and writes y, 4 flops per element; backward reads dy, x, w and
//   residual and writes dx, 11 flops per element, and 2 for y
// Numerics: float sums in two accumulators of 16 lanes, then a tree; the order is fixed. A row is
//   written only after its sums are complete: y may alias x or addend, and dx may alias dy
//   or residual
//! clc: build on cpu:
#include "float16_math.clh"
#include "group_range.clh"
#include "rowwise/rms_norm_scale_cpu.clh"

// mean(dy w x)
float mean_product(__global const float* dy, __global const float* w, __global const float* x,
                   int width) {
  float16 even = 0.0f;
  float16 odd = 0.0f;
  int i = 0;
  for (; i + 32 <= width; i += 32) {
    even = fma(vload16(0, dy + i) * vload16(0, w + i), vload16(0, x + i), even);
    odd = fma(vload16(1, dy + i) * vload16(1, w + i), vload16(1, x + i), odd);
  }
  for (; i + 16 <= width; i += 16) {
    even = fma(vload16(0, dy + i) * vload16(0, w + i), vload16(0, x + i), even);
  }
  float sum = sum16(even + odd);
  for (; i < width; ++i) sum = fma(dy[i] * w[i], x[i], sum);
  return sum / (float)width;
}

__attribute__((reqd_work_group_size(1, 1, 1))) __kernel void rms_norm_forward(
    __global float* y, __global const float* x, __global const float* w, long rows, int width,
    float epsilon) {
  const long end = group_end(rows);
  for (long row = group_begin(rows); row < end; ++row) {
    __global const float* in = x + row * width;
    __global float* out = y + row * width;
    const float scale = row_scale(in, width, epsilon);
    int i = 0;
    for (; i + 16 <= width; i += 16) {
      vstore16(vload16(0, in + i) * scale * vload16(0, w + i), 0, out + i);
    }
    for (; i < width; ++i) out[i] = in[i] * scale * w[i];
  }
}

__attribute__((reqd_work_group_size(1, 1, 1))) __kernel void rms_norm_forward_add(
    __global float* y, __global const float* x, __global const float* w,
    __global const float* addend, float factor, long rows, int width, float epsilon) {
  const long end = group_end(rows);
  for (long row = group_begin(rows); row < end; ++row) {
    const long at = row * width;
    const float scale = row_scale(x + at, width, epsilon) * factor;
    int i = 0;
    for (; i + 16 <= width; i += 16) {
      const float16 scaled = vload16(0, x + at + i) * scale;
      vstore16(fma(scaled, vload16(0, w + i), vload16(0, addend + at + i)), 0, y + at + i);
    }
    for (; i < width; ++i) y[at + i] = fma(x[at + i] * scale, w[i], addend[at + i]);
  }
}

// Writes y unless it is null.
void backward(__global float* dx, __global float* y, __global const float* dy,
              __global const float* x, __global const float* w, __global const float* residual,
              int has_residual, long rows, int width, float epsilon) {
  const long end = group_end(rows);
  for (long row = group_begin(rows); row < end; ++row) {
    const long at = row * width;
    const float scale = row_scale(x + at, width, epsilon);
    const float along_x = mean_product(dy + at, w, x + at, width) * scale * scale;
    int i = 0;
    for (; i + 16 <= width; i += 16) {
      const float16 v = vload16(0, x + at + i);
      const float16 weights = vload16(0, w + i);
      float16 d = scale * fma((float16)(-along_x), v, vload16(0, dy + at + i) * weights);
      if (has_residual) d += vload16(0, residual + at + i);
      vstore16(d, 0, dx + at + i);
      if (y) vstore16(v * scale * weights, 0, y + at + i);
    }
    for (; i < width; ++i) {
      const float v = x[at + i];
      const float d = scale * fma(-along_x, v, dy[at + i] * w[i]);
      dx[at + i] = has_residual ? residual[at + i] + d : d;
      if (y) y[at + i] = v * scale * w[i];
    }
  }
}

__attribute__((reqd_work_group_size(1, 1, 1))) __kernel void rms_norm_backward(
    __global float* dx, __global const float* dy, __global const float* x, __global const float* w,
    __global const float* residual, int has_residual, long rows, int width, float epsilon) {
  backward(dx, 0, dy, x, w, residual, has_residual, rows, width, epsilon);
}

__attribute__((reqd_work_group_size(1, 1, 1))) __kernel void rms_norm_backward_recompute(
    __global float* dx, __global const float* dy, __global const float* x, __global const float* w,
    __global const float* residual, int has_residual, __global float* y, long rows, int width,
    float epsilon) {
  backward(dx, y, dy, x, w, residual, has_residual, rows, width, epsilon);
}
