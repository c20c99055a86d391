// swiglu for CPU devices: y = silu(gate) up, silu(g) = g s(g), s(g) = 1 / (1 + exp(-g)).
// backward: dup = dy silu(gate); dgate = dy up silu'(gate), silu'(g) = s (1 + g (1 - s)).
// -D GELU, SIGMOID: gelu or the sigmoid in place of silu (cl/rowwise/gate_function.clh).
// swiglu_forward_saving also writes gate and up as bf16 (saved_gate, saved_up), which the _saved
// kernels read instead of gate and up. The _recompute kernels also write y.
// Shapes: all [T, F], taken as one flat range of n elements
// Types: f32; saved_gate and saved_up bf16 (bf16_values.clh)
// Work: a work-group of one item owns an even share of the full blocks of 16; the last group also
//   owns the tail of n % 16. The kernels differ in the types and tensors that they pass to forward()
//   and backward(), which are inlined. They need no other -D, so a run builds one program for all
// Local: none
// Cost: forward reads gate and up and writes y, 5 flops and an exp per element; backward reads dy,
//   gate and up and writes dgate and dup, 10 flops and an exp, and 2 flops for y
// Numerics: exp16 stays finite, so s is at least 3e-39, which is negligible. Each element is read
//   before it is written: an f32 output may alias any f32 input
//! clc: build on cpu:
//! clc: build on cpu: GELU
//! clc: build on cpu: SIGMOID
#include "bf16_values16.clh"
#include "group_range.clh"
#include "rowwise/swiglu16.clh"

#define INLINED __attribute__((always_inline))

// The `count` elements (16, or those of a tail) of x from `at` on: bf16, or f32 if !is_bf16. The
// other lanes are 0.
INLINED float16 load16(__global const void* x, bool is_bf16, long at, int count) {
  __global const float* floats = (__global const float*)x + at;
  __global const ushort* halves = (__global const ushort*)x + at;
  if (!is_bf16) return count == 16 ? vload16(0, floats) : load16_tail(floats, count, 0.0f);
  if (count == 16) return float16_of_bf16(vload16(0, halves));
  float lanes[16];
  for (int i = 0; i < 16; ++i) lanes[i] = i < count ? float_of_bf16(halves[i]) : 0.0f;
  return vload16(0, lanes);
}

// Writes the first `count` lanes to x from `at` on.
INLINED void store16(float16 v, __global float* x, long at, int count) {
  if (count == 16) {
    vstore16(v, 0, x + at);
  } else {
    store16_tail(v, x + at, count);
  }
}

// The same, cast to bf16.
INLINED void store16_bf16(float16 v, __global ushort* x, long at, int count) {
  const ushort16 halves = bf16_of_16(v);
  if (count == 16) {
    vstore16(halves, 0, x + at);
  } else {
    ushort lanes[16];
    vstore16(halves, 0, lanes);
    for (int i = 0; i < count; ++i) x[at + i] = lanes[i];
  }
}

INLINED void forward_block(__global float* y, __global const void* gate, __global const void* up,
                           bool is_bf16, __global ushort* saved_gate, __global ushort* saved_up,
                           long at, int count) {
  const float16 g = load16(gate, is_bf16, at, count);
  const float16 u = load16(up, is_bf16, at, count);
  if (saved_gate) store16_bf16(g, saved_gate, at, count);
  if (saved_up) store16_bf16(u, saved_up, at, count);
  store16(swiglu16(g, u), y, at, count);
}

// Writes saved_gate and saved_up unless they are null.
INLINED void forward(__global float* y, __global const void* gate, __global const void* up,
                     bool is_bf16, __global ushort* saved_gate, __global ushort* saved_up,
                     long n) {
  const long end = group_end(n / 16);
  for (long b = group_begin(n / 16); b < end; ++b) {
    forward_block(y, gate, up, is_bf16, saved_gate, saved_up, 16 * b, 16);
  }
  const int tail = tail_of_group(n);
  if (tail > 0) forward_block(y, gate, up, is_bf16, saved_gate, saved_up, n - tail, tail);
}

INLINED void backward_block(__global float* dgate, __global float* dup, __global float* y,
                            __global const float* dy, __global const void* gate,
                            __global const void* up, bool is_bf16, long at, int count) {
  const float16 g = load16(gate, is_bf16, at, count);
  const float16 u = load16(up, is_bf16, at, count);
  const float16 d = load16(dy, false, at, count);
  const float16 s = gate_sigmoid16(g);
  store16(d * u * s * fma(GATE_SLOPE(g), 1.0f - s, (float16)(GATE_CONSTANT)), dgate, at, count);
  store16(d * GATE_FACTOR(g) * s, dup, at, count);
  if (y) store16(GATE_FACTOR(g) * s * u, y, at, count);
}

// Writes y unless it is null.
INLINED void backward(__global float* dgate, __global float* dup, __global float* y,
                      __global const float* dy, __global const void* gate,
                      __global const void* up, bool is_bf16, long n) {
  const long end = group_end(n / 16);
  for (long b = group_begin(n / 16); b < end; ++b) {
    backward_block(dgate, dup, y, dy, gate, up, is_bf16, 16 * b, 16);
  }
  const int tail = tail_of_group(n);
  if (tail > 0) backward_block(dgate, dup, y, dy, gate, up, is_bf16, n - tail, tail);
}

__attribute__((reqd_work_group_size(1, 1, 1))) __kernel void swiglu_forward(
    __global float* y, __global const float* gate, __global const float* up, long n) {
  forward(y, gate, up, false, 0, 0, n);
}

__attribute__((reqd_work_group_size(1, 1, 1))) __kernel void swiglu_forward_saving(
    __global float* y, __global const float* gate, __global const float* up,
    __global ushort* saved_gate, __global ushort* saved_up, long n) {
  forward(y, gate, up, false, saved_gate, saved_up, n);
}

__attribute__((reqd_work_group_size(1, 1, 1))) __kernel void swiglu_forward_saved(
    __global float* y, __global const ushort* saved_gate, __global const ushort* saved_up, long n) {
  forward(y, saved_gate, saved_up, true, 0, 0, n);
}

__attribute__((reqd_work_group_size(1, 1, 1))) __kernel void swiglu_backward(
    __global float* dgate, __global float* dup, __global const float* dy,
    __global const float* gate, __global const float* up, long n) {
  backward(dgate, dup, 0, dy, gate, up, false, n);
}

__attribute__((reqd_work_group_size(1, 1, 1))) __kernel void swiglu_backward_recompute(
    __global float* dgate, __global float* dup, __global const float* dy,
    __global const float* gate, __global const float* up, __global float* y, long n) {
  backward(dgate, dup, y, dy, gate, up, false, n);
}

__attribute__((reqd_work_group_size(1, 1, 1))) __kernel void swiglu_backward_saved(
    __global float* dgate, __global float* dup, __global const float* dy,
    __global const ushort* saved_gate, __global const ushort* saved_up, long n) {
  backward(dgate, dup, 0, dy, saved_gate, saved_up, true, n);
}

__attribute__((reqd_work_group_size(1, 1, 1))) __kernel void swiglu_backward_saved_recompute(
    __global float* dgate, __global float* dup, __global const float* dy,
    __global const ushort* saved_gate, __global const ushort* saved_up, __global float* y, long n) {
  backward(dgate, dup, y, dy, saved_gate, saved_up, true, n);
}
