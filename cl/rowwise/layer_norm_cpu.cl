// layer_norm for CPU devices, over the last dimension: y = n w + bias, n = (x - mean(x)) r,
// r = 1 / sqrt(var(x) + epsilon).
// backward: dx = residual + r (g - mean(g) - n mean(g n)), g = dy w.
// Shapes: x, y, dy, dx, residual [rows, width]; w, bias [width]
// Types: f32
// Work: a work-group of one item owns an even share of the rows; 16 columns at a time
// Local: none; a row stays in the L1 cache between its passes
// Cost: forward reads x, w and bias and writes y, 8 flops per element; backward reads dy, x, w and
//   residual and writes dx, 16 flops per element
// Numerics: the variance is the mean square of the differences from the mean, in a separate pass,
//   so a large mean costs no precision; float sums in two accumulators of 16 lanes, then a tree, in
//   a fixed order. A row is written only after its sums are complete: y may alias x, and dx may
//   alias dy or residual
//! clc: build on cpu:
#include "float16_math.clh"
#include "group_range.clh"

float row_mean(__global const float* x, int width) {
  float16 even = 0.0f;
  float16 odd = 0.0f;
  int i = 0;
  for (; i + 32 <= width; i += 32) {
    even += vload16(0, x + i);
    odd += vload16(1, x + i);
  }
  for (; i + 16 <= width; i += 16) even += vload16(0, x + i);
  if (i < width) odd += load16_tail(x + i, width - i, 0.0f);
  return sum16(even + odd) / (float)width;
}

// 1 / sqrt(mean((x - mean)^2) + epsilon)
float row_scale(__global const float* x, int width, float mean, float epsilon) {
  float16 even = 0.0f;
  float16 odd = 0.0f;
  int i = 0;
  for (; i + 32 <= width; i += 32) {
    const float16 a = vload16(0, x + i) - mean;
    const float16 b = vload16(1, x + i) - mean;
    even = fma(a, a, even);
    odd = fma(b, b, odd);
  }
  for (; i < width; i += 16) {
    const float16 a =
        (i + 16 <= width ? vload16(0, x + i) : load16_tail(x + i, width - i, mean)) - mean;
    even = fma(a, a, even);
  }
  return rsqrt(sum16(even + odd) / (float)width + epsilon);
}

// mean(g) and mean(g n)
float2 gradient_means(__global const float* dy, __global const float* w, __global const float* x,
                      int width, float mean, float scale) {
  float16 sum = 0.0f;
  float16 products = 0.0f;
  int i = 0;
  for (; i + 16 <= width; i += 16) {
    const float16 g = vload16(0, dy + i) * vload16(0, w + i);
    sum += g;
    products = fma(g, (vload16(0, x + i) - mean) * scale, products);
  }
  float2 sums = (float2)(sum16(sum), sum16(products));
  for (; i < width; ++i) {
    const float g = dy[i] * w[i];
    sums += (float2)(g, g * (x[i] - mean) * scale);
  }
  return sums / (float)width;
}

__attribute__((reqd_work_group_size(1, 1, 1))) __kernel void layer_norm_forward(
    __global float* y, __global const float* x, __global const float* w, __global const float* bias,
    long rows, int width, float epsilon) {
  const long end = group_end(rows);
  for (long row = group_begin(rows); row < end; ++row) {
    __global const float* in = x + row * width;
    __global float* out = y + row * width;
    const float mean = row_mean(in, width);
    const float scale = row_scale(in, width, mean, epsilon);
    int i = 0;
    for (; i + 16 <= width; i += 16) {
      const float16 n = (vload16(0, in + i) - mean) * scale;
      vstore16(fma(n, vload16(0, w + i), vload16(0, bias + i)), 0, out + i);
    }
    for (; i < width; ++i) out[i] = fma((in[i] - mean) * scale, w[i], bias[i]);
  }
}

__attribute__((reqd_work_group_size(1, 1, 1))) __kernel void layer_norm_backward(
    __global float* dx, __global const float* dy, __global const float* x, __global const float* w,
    __global const float* residual, int has_residual, long rows, int width, float epsilon) {
  const long end = group_end(rows);
  for (long row = group_begin(rows); row < end; ++row) {
    const long at = row * width;
    const float mean = row_mean(x + at, width);
    const float scale = row_scale(x + at, width, mean, epsilon);
    const float2 means = gradient_means(dy + at, w, x + at, width, mean, scale);
    int i = 0;
    for (; i + 16 <= width; i += 16) {
      const float16 g = vload16(0, dy + at + i) * vload16(0, w + i);
      const float16 n = (vload16(0, x + at + i) - mean) * scale;
      float16 d = scale * (g - means.x - n * means.y);
      if (has_residual) d += vload16(0, residual + at + i);
      vstore16(d, 0, dx + at + i);
    }
    for (; i < width; ++i) {
      const float n = (x[at + i] - mean) * scale;
      const float d = scale * (dy[at + i] * w[i] - means.x - n * means.y);
      dx[at + i] = has_residual ? residual[at + i] + d : d;
    }
  }
}
