// gelu for CPU devices: y = x P(x), P the distribution function of the normal distribution (Hendrycks
// and Gimpel, 2016).
// backward: dx = dy (P(x) + x p(x)), p = P' the density; gelu_backward_recompute also writes y.
// -D TANH: P in the tanh form of the same paper (cl/rowwise/gate_function.clh).
// Shapes: all as one flat range of n elements
// Types: f32
// Work: a work-group of one item owns an even share of the full blocks of 16; the last group also
//   owns the tail of n % 16
// Local: none
// Cost: forward reads x and writes y, an exp and 20 flops per element; backward reads dy and x and
//   writes dx, an exp and 24 flops, and 1 flop for y
// Numerics: P within 1e-7 by the rational approximation of erf of Abramowitz and Stegun (7.1.26).
//   Each element is read before it is written: an output may alias any input
//! clc: build on cpu:
//! clc: build on cpu: TANH
#ifdef TANH
#define GELU
#endif
#include "float16_math.clh"
#include "group_range.clh"
#include "rowwise/gate_function.clh"

// P(x), and in *scaled_density x p(x).
#ifdef TANH
float16 distribution(float16 x, float16* scaled_density) {
  const float16 P = 1.0f / (1.0f + exp16(-GATE_EXPONENT(x)));
  *scaled_density = GATE_SLOPE(x) * P * (1.0f - P);
  return P;
}
#else
float16 distribution(float16 x, float16* scaled_density) {
  const float16 z = 0.70710678f * fabs(x);
  const float16 bell = exp16(-z * z);
  *scaled_density = 0.39894228f * x * bell;
  const float16 t = 1.0f / fma((float16)(0.3275911f), z, (float16)(1.0f));
  float16 tail = 1.061405429f;
  tail = fma(tail, t, (float16)(-1.453152027f));
  tail = fma(tail, t, (float16)(1.421413741f));
  tail = fma(tail, t, (float16)(-0.284496736f));
  tail = fma(tail, t, (float16)(0.254829592f));
  tail = 0.5f * tail * t * bell;  // P(-|x|)
  return x > 0.0f ? 1.0f - tail : tail;
}
#endif

float16 load(__global const float* x, int count) {
  return count == 16 ? vload16(0, x) : load16_tail(x, count, 0.0f);
}

void store(float16 v, __global float* y, int count) {
  if (count == 16) {
    vstore16(v, 0, y);
  } else {
    store16_tail(v, y, count);
  }
}

void forward_block(__global float* y, __global const float* x, int count) {
  float16 ignored;
  const float16 v = load(x, count);
  store(v * distribution(v, &ignored), y, count);
}

// Writes y unless it is null.
void backward_block(__global float* dx, __global const float* dy, __global const float* x,
                    __global float* y, int count) {
  float16 scaled_density;
  const float16 d = load(dy, count), v = load(x, count);
  const float16 P = distribution(v, &scaled_density);
  store(d * (P + scaled_density), dx, count);
  if (y) store(v * P, y, count);
}

__attribute__((reqd_work_group_size(1, 1, 1))) __kernel void gelu_forward(
    __global float* y, __global const float* x, long n) {
  const long end = group_end(n / 16);
  for (long b = group_begin(n / 16); b < end; ++b) forward_block(y + 16 * b, x + 16 * b, 16);
  const int tail = tail_of_group(n);
  if (tail > 0) forward_block(y + n - tail, x + n - tail, tail);
}

void backward(__global float* dx, __global const float* dy, __global const float* x,
              __global float* y, long n) {
  const long end = group_end(n / 16);
  for (long b = group_begin(n / 16); b < end; ++b) {
    backward_block(dx + 16 * b, dy + 16 * b, x + 16 * b, y ? y + 16 * b : 0, 16);
  }
  const int tail = tail_of_group(n);
  const long at = n - tail;
  if (tail > 0) backward_block(dx + at, dy + at, x + at, y ? y + at : 0, tail);
}

__attribute__((reqd_work_group_size(1, 1, 1))) __kernel void gelu_backward(
    __global float* dx, __global const float* dy, __global const float* x, long n) {
  backward(dx, dy, x, 0, n);
}

__attribute__((reqd_work_group_size(1, 1, 1))) __kernel void gelu_backward_recompute(
    __global float* dx, __global const float* dy, __global const float* x, __global float* y,
    long n) {
  backward(dx, dy, x, y, n);
}
