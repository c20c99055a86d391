// swiglu for CPU devices: y = silu(gate) up, silu(g) = g s(g), s(g) = 1 / (1 + exp(-g)).
// backward: dup = dy silu(gate); dgate = dy up silu'(gate), silu'(g) = s (1 + g (1 - s)).
// swiglu_forward_saving also writes gate and up as bf16 (saved_gate, saved_up), which the _saved
// kernels read instead of gate and up. The _recompute kernels also write y.
// Shapes: all [T, F], taken as one flat range of n elements
// Types: f32; saved_gate and saved_up bf16 (bf16_values.clh)
// Work: a work-group of one item owns an even share of the full blocks of 16; the last group also
//   owns the tail of n % 16
// Local: none
// Cost: forward reads gate and up and writes y, 5 flops and an exp per element; backward reads dy,
//   gate and up and writes dgate and dup, 10 flops and an exp, and 2 flops for y
// Numerics: exp16 stays finite, so s is at least 3e-39, which is negligible. Each element is read
//   before it is written: an f32 output may alias any f32 input
//! clc: build on cpu:
#include "bf16_values16.clh"
#include "group_range.clh"
#include "rowwise/swiglu16.clh"

// dgate = dy up silu'(gate)
float16 dgate16(float16 dy, float16 gate, float16 up, float16 s) {
  return dy * up * s * fma(gate, 1.0f - s, (float16)(1.0f));
}

__attribute__((reqd_work_group_size(1, 1, 1))) __kernel void swiglu_forward(
    __global float* y, __global const float* gate, __global const float* up, long n) {
  const long end = group_end(n / 16);
  for (long b = group_begin(n / 16); b < end; ++b) {
    vstore16(swiglu16(vload16(b, gate), vload16(b, up)), b, y);
  }
  const int tail = (int)(n % 16);
  if (tail == 0 || get_group_id(0) + 1 < get_num_groups(0)) return;
  const long at = n - tail;
  const float16 g = load16_tail(gate + at, tail, 0.0f);
  store16_tail(swiglu16(g, load16_tail(up + at, tail, 0.0f)), y + at, tail);
}

// Here and below, each element of the tail takes a full vector, of which one lane is used.
__attribute__((reqd_work_group_size(1, 1, 1))) __kernel void swiglu_forward_saving(
    __global float* y, __global const float* gate, __global const float* up,
    __global ushort* saved_gate, __global ushort* saved_up, long n) {
  const long end = group_end(n / 16);
  for (long b = group_begin(n / 16); b < end; ++b) {
    const float16 g = vload16(b, gate);
    const float16 u = vload16(b, up);
    vstore16(bf16_of_16(g), b, saved_gate);
    vstore16(bf16_of_16(u), b, saved_up);
    vstore16(swiglu16(g, u), b, y);
  }
  if (get_group_id(0) + 1 < get_num_groups(0)) return;
  for (long i = n / 16 * 16; i < n; ++i) {
    const float g = gate[i];
    const float u = up[i];
    saved_gate[i] = bf16_of(g);
    saved_up[i] = bf16_of(u);
    y[i] = swiglu16((float16)(g), (float16)(u)).s0;
  }
}

__attribute__((reqd_work_group_size(1, 1, 1))) __kernel void swiglu_forward_saved(
    __global float* y, __global const ushort* saved_gate, __global const ushort* saved_up, long n) {
  const long end = group_end(n / 16);
  for (long b = group_begin(n / 16); b < end; ++b) {
    const float16 g = float16_of_bf16(vload16(b, saved_gate));
    vstore16(swiglu16(g, float16_of_bf16(vload16(b, saved_up))), b, y);
  }
  if (get_group_id(0) + 1 < get_num_groups(0)) return;
  for (long i = n / 16 * 16; i < n; ++i) {
    const float16 g = (float16)(float_of_bf16(saved_gate[i]));
    y[i] = swiglu16(g, (float16)(float_of_bf16(saved_up[i]))).s0;
  }
}

// Writes y unless it is null.
void backward(__global float* dgate, __global float* dup, __global float* y,
              __global const float* dy, __global const float* gate, __global const float* up,
              long n) {
  const long end = group_end(n / 16);
  for (long b = group_begin(n / 16); b < end; ++b) {
    const float16 g = vload16(b, gate);
    const float16 u = vload16(b, up);
    const float16 d = vload16(b, dy);
    const float16 s = sigmoid16(g);
    vstore16(dgate16(d, g, u, s), b, dgate);
    vstore16(d * g * s, b, dup);
    if (y) vstore16(g * s * u, b, y);
  }
  const int tail = (int)(n % 16);
  if (tail == 0 || get_group_id(0) + 1 < get_num_groups(0)) return;
  const long at = n - tail;
  const float16 g = load16_tail(gate + at, tail, 0.0f);
  const float16 u = load16_tail(up + at, tail, 0.0f);
  const float16 d = load16_tail(dy + at, tail, 0.0f);
  const float16 s = sigmoid16(g);
  store16_tail(dgate16(d, g, u, s), dgate + at, tail);
  store16_tail(d * g * s, dup + at, tail);
  if (y) store16_tail(g * s * u, y + at, tail);
}

void backward_saved(__global float* dgate, __global float* dup, __global float* y,
                   __global const float* dy, __global const ushort* saved_gate,
                   __global const ushort* saved_up, long n) {
  const long end = group_end(n / 16);
  for (long b = group_begin(n / 16); b < end; ++b) {
    const float16 g = float16_of_bf16(vload16(b, saved_gate));
    const float16 u = float16_of_bf16(vload16(b, saved_up));
    const float16 d = vload16(b, dy);
    const float16 s = sigmoid16(g);
    vstore16(dgate16(d, g, u, s), b, dgate);
    vstore16(d * g * s, b, dup);
    if (y) vstore16(g * s * u, b, y);
  }
  if (get_group_id(0) + 1 < get_num_groups(0)) return;
  for (long i = n / 16 * 16; i < n; ++i) {
    const float16 g = (float16)(float_of_bf16(saved_gate[i]));
    const float16 u = (float16)(float_of_bf16(saved_up[i]));
    const float16 d = (float16)(dy[i]);
    const float16 s = sigmoid16(g);
    dgate[i] = dgate16(d, g, u, s).s0;
    dup[i] = (d * g * s).s0;
    if (y) y[i] = (g * s * u).s0;
  }
}

__attribute__((reqd_work_group_size(1, 1, 1))) __kernel void swiglu_backward(
    __global float* dgate, __global float* dup, __global const float* dy,
    __global const float* gate, __global const float* up, long n) {
  backward(dgate, dup, 0, dy, gate, up, n);
}

__attribute__((reqd_work_group_size(1, 1, 1))) __kernel void swiglu_backward_recompute(
    __global float* dgate, __global float* dup, __global const float* dy,
    __global const float* gate, __global const float* up, __global float* y, long n) {
  backward(dgate, dup, y, dy, gate, up, n);
}

__attribute__((reqd_work_group_size(1, 1, 1))) __kernel void swiglu_backward_saved(
    __global float* dgate, __global float* dup, __global const float* dy,
    __global const ushort* saved_gate, __global const ushort* saved_up, long n) {
  backward_saved(dgate, dup, 0, dy, saved_gate, saved_up, n);
}

__attribute__((reqd_work_group_size(1, 1, 1))) __kernel void swiglu_backward_saved_recompute(
    __global float* dgate, __global float* dup, __global const float* dy,
    __global const ushort* saved_gate, __global const ushort* saved_up, __global float* y, long n) {
  backward_saved(dgate, dup, y, dy, saved_gate, saved_up, n);
}
