// swiglu, portable: y = silu(gate) up, silu(g) = g s(g), s(g) = 1 / (1 + exp(-g)).
// backward: dup = dy silu(gate); dgate = dy up silu'(gate), silu'(g) = s (1 + g (1 - s)).
// _keeping also writes gate and up as bf16 (kept_gate, kept_up); _kept reads them so.
// Shapes: all [T, F], taken as one flat range of n elements
// Types: f32; kept_gate and kept_up bf16 (bf16_values.clh)
// Work: one work-item an element
// Cost: forward reads gate and up, writes y: 5 flops and an exp an element; backward reads dy, gate
//   and up, writes dgate and dup: 10 flops and an exp
// Numerics: exp(-g) may overflow to infinity, where s is 0 as it should be. Each element is read
//   and written by one item: y may be gate or up, dgate may be gate, dup may be up

#include "bf16_values.clh"

float swiglu(float g, float u) { return g / (1.0f + exp(-g)) * u; }

// (dgate, dup)
float2 gradients(float d, float g, float u) {
  const float s = 1.0f / (1.0f + exp(-g));
  return (float2)(d * u * s * fma(g, 1.0f - s, 1.0f), d * g * s);
}

__kernel void swiglu_forward(__global float* y, __global const float* gate,
                             __global const float* up, long n) {
  const size_t i = get_global_id(0);
  if ((long)i < n) y[i] = swiglu(gate[i], up[i]);
}

__kernel void swiglu_forward_keeping(__global float* y, __global const float* gate,
                                     __global const float* up, __global ushort* kept_gate,
                                     __global ushort* kept_up, long n) {
  const size_t i = get_global_id(0);
  if ((long)i >= n) return;
  kept_gate[i] = bf16_of(gate[i]);
  kept_up[i] = bf16_of(up[i]);
  y[i] = swiglu(gate[i], up[i]);
}

__kernel void swiglu_forward_kept(__global float* y, __global const ushort* kept_gate,
                                  __global const ushort* kept_up, long n) {
  const size_t i = get_global_id(0);
  if ((long)i < n) y[i] = swiglu(float_of_bf16(kept_gate[i]), float_of_bf16(kept_up[i]));
}

__kernel void swiglu_backward(__global float* dgate, __global float* dup,
                              __global const float* dy, __global const float* gate,
                              __global const float* up, long n) {
  const size_t i = get_global_id(0);
  if ((long)i >= n) return;
  const float2 d = gradients(dy[i], gate[i], up[i]);
  dgate[i] = d.x;
  dup[i] = d.y;
}

__kernel void swiglu_backward_kept(__global float* dgate, __global float* dup,
                                   __global const float* dy, __global const ushort* kept_gate,
                                   __global const ushort* kept_up, long n) {
  const size_t i = get_global_id(0);
  if ((long)i >= n) return;
  const float2 d = gradients(dy[i], float_of_bf16(kept_gate[i]), float_of_bf16(kept_up[i]));
  dgate[i] = d.x;
  dup[i] = d.y;
}
