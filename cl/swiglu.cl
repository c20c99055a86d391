// swiglu, portable: y = silu(gate) up, silu(g) = g s(g), s(g) = 1 / (1 + exp(-g)).
// backward: dup = dy silu(gate); dgate = dy up silu'(gate), silu'(g) = s (1 + g (1 - s)).
// Shapes: all [T, F], taken as one flat range of n elements
// Types: f32
// Work: one work-item an element
// Cost: forward reads gate and up, writes y: 5 flops and an exp an element; backward reads dy, gate
//   and up, writes dgate and dup: 10 flops and an exp
// Numerics: exp(-g) may overflow to infinity, where s is 0 as it should be. Each element is read
//   and written by one item: y may be gate or up, dgate may be gate, dup may be up

__kernel void swiglu_forward(__global float* y, __global const float* gate,
                             __global const float* up, long n) {
  const size_t i = get_global_id(0);
  if ((long)i >= n) return;
  const float g = gate[i];
  y[i] = g / (1.0f + exp(-g)) * up[i];
}

__kernel void swiglu_backward(__global float* dgate, __global float* dup,
                              __global const float* dy, __global const float* gate,
                              __global const float* up, long n) {
  const size_t i = get_global_id(0);
  if ((long)i >= n) return;
  const float g = gate[i];
  const float u = up[i];
  const float d = dy[i];
  const float s = 1.0f / (1.0f + exp(-g));
  dgate[i] = d * u * s * fma(g, 1.0f - s, 1.0f);
  dup[i] = d * g * s;
}
