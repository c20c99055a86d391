// short_conv: a causal convolution of each channel over the rows of a document, with few taps.
//
//   z[t, c] = bias[c] + sum over lag < WIDTH of taps[lag, c] u[t - lag, c]
//     u = 0 before the first row of t's document
//   -D SILU    u = x,         y = z s(z), s(z) = 1 / (1 + exp(-z))
//   -D GATED   u = b x,       y = c z, with rows [b, c, x] of the input
// backward: du[t] = sum over lag of taps[lag] dz[t + lag] within t's document, and dz, db, dc and dx
//   by the rules above; the forward's z is recomputed.
// cached: the rows continue a sequence at `positions`; state [WIDTH - 1, C] has u of the rows before
//   them, the last one first, and becomes that of the next call. A row at position 0 has no rows
//   before it. A row at a negative position is padding: its y is 0 and the state skips it.
// Shapes: x, dx [T, C], or [T, 3 C] if GATED; y, dy [T, C]; taps [WIDTH, C]; bias [C] (-D BIAS);
//   first [T]: the first row of a row's document; positions [T]. Sizes are in vectors of VEC_SIZE
// Types: x, dx, y, dy f32, bf16 or f16 (-D TYPE); taps, bias, state f32; first, positions i32
// Work: a work-item owns a vector of channels of every get_global_size(1)-th row; cached: of all
//   rows, one after the other
// Local: none
// Cost: reads x, writes y; 2 WIDTH flops and the function per element. backward reads x and dy and
//   writes dx; with SILU it computes z WIDTH times from values that the cache holds
// Numerics: sums in f32 by the lag; exp(-z) may overflow to infinity, and then s is 0, the limit
//! clc: build TYPE={f32,bf16} VEC_SIZE={1,4} WIDTH=4 SILU
//! clc: build TYPE={f32,bf16} VEC_SIZE={1,4} WIDTH=3 GATED
//! clc: build TYPE=f16 VEC_SIZE=4 WIDTH=3 GATED BIAS
//! clc: build TYPE=f32 VEC_SIZE=4 WIDTH=8 SILU BIAS
//! clc: budget on gfx90a registers<=128 spills=0
#include "activations.clh"

#if !defined(TYPE) || !defined(WIDTH) || defined(SILU) == defined(GATED)
#error "TYPE: of activations; WIDTH: taps, from 2 to 8; SILU or GATED"
#endif
#ifdef BIAS
#define BIAS_PARAMETER __global const float* restrict bias,
#define BIAS_OF(c) LOAD_VEC(f32, bias, c)
#else
#define BIAS_PARAMETER
#define BIAS_OF(c) (vec)(0.0f)
#endif

// The vector of channels `c` of row t of one of the parts of x, each C wide.
#ifdef GATED
#define PART(x, t, part) ((size_t)(t) * 3 * C + (part) * C + c)
vec u_of(__global const STORED(TYPE)* x, int t, uint C, uint c) {
  return LOAD_VEC(TYPE, x, PART(x, t, 0)) * LOAD_VEC(TYPE, x, PART(x, t, 2));
}
#else
vec u_of(__global const STORED(TYPE)* x, int t, uint C, uint c) {
  return LOAD_VEC(TYPE, x, (size_t)t * C + c);
}
vec sigmoid(vec z) { return 1.0f / (1.0f + exp(-z)); }
#endif

// z of row t, whose document begins at row `first`.
vec conv_of(__global const STORED(TYPE)* x, __global const float* taps, vec bias, int t, int first,
            uint C, uint c) {
  vec z = bias;
  for (int lag = 0; lag < WIDTH; ++lag) {
    if (t - lag >= first) z += LOAD_VEC(f32, taps, lag * C + c) * u_of(x, t - lag, C, c);
  }
  return z;
}

// y of row t.
vec output_of(__global const STORED(TYPE)* x, vec z, int t, uint C, uint c) {
#ifdef GATED
  return LOAD_VEC(TYPE, x, PART(x, t, 1)) * z;
#else
  return z * sigmoid(z);
#endif
}

__kernel void short_conv_forward(__global STORED(TYPE)* restrict y,
                                 __global const STORED(TYPE)* restrict x,
                                 __global const float* restrict taps, BIAS_PARAMETER
                                 __global const int* restrict first, int T, uint C) {
  const uint c = get_global_id(0);
  if (c >= C) return;
  for (int t = get_global_id(1); t < T; t += get_global_size(1)) {
    const vec z = conv_of(x, taps, BIAS_OF(c), t, first[t], C, c);
    STORE_VEC(TYPE, y, (size_t)t * C + c, output_of(x, z, t, C, c));
  }
}

// dz of row t.
vec dconv_of(__global const STORED(TYPE)* dy, __global const STORED(TYPE)* x,
             __global const float* taps, vec bias, int t, int first, uint C, uint c) {
  const vec d = LOAD_VEC(TYPE, dy, (size_t)t * C + c);
#ifdef GATED
  return d * LOAD_VEC(TYPE, x, PART(x, t, 1));
#else
  const vec z = conv_of(x, taps, bias, t, first, C, c);
  const vec s = sigmoid(z);
  return d * s * fma(z, 1.0f - s, (vec)(1.0f));
#endif
}

__kernel void short_conv_backward(__global STORED(TYPE)* restrict dx,
                                  __global const STORED(TYPE)* restrict dy,
                                  __global const STORED(TYPE)* restrict x,
                                  __global const float* restrict taps, BIAS_PARAMETER
                                  __global const int* restrict first, int T, uint C) {
  const uint c = get_global_id(0);
  if (c >= C) return;
  for (int t = get_global_id(1); t < T; t += get_global_size(1)) {
    vec du = 0.0f;
    for (int lag = 0; lag < WIDTH; ++lag) {
      const int later = t + lag;
      if (later >= T || first[later] > t) break;
      du += LOAD_VEC(f32, taps, lag * C + c) *
            dconv_of(dy, x, taps, BIAS_OF(c), later, first[later], C, c);
    }
#ifdef GATED
    const vec z = conv_of(x, taps, BIAS_OF(c), t, first[t], C, c);
    STORE_VEC(TYPE, dx, PART(dx, t, 0), du * LOAD_VEC(TYPE, x, PART(x, t, 2)));
    STORE_VEC(TYPE, dx, PART(dx, t, 1), LOAD_VEC(TYPE, dy, (size_t)t * C + c) * z);
    STORE_VEC(TYPE, dx, PART(dx, t, 2), du * LOAD_VEC(TYPE, x, PART(x, t, 0)));
#else
    STORE_VEC(TYPE, dx, (size_t)t * C + c, du);
#endif
  }
}

__kernel void short_conv_cached(__global STORED(TYPE)* restrict y, __global float* restrict state,
                                __global const STORED(TYPE)* restrict x,
                                __global const float* restrict taps, BIAS_PARAMETER
                                __global const int* restrict positions, int T, uint C) {
  const uint c = get_global_id(0);
  if (c >= C) return;
  vec before[WIDTH - 1];
  for (int i = 0; i < WIDTH - 1; ++i) before[i] = LOAD_VEC(f32, state, i * C + c);
  for (int t = 0; t < T; ++t) {
    if (positions[t] < 0) {
      STORE_VEC(TYPE, y, (size_t)t * C + c, (vec)(0.0f));
      continue;
    }
    if (positions[t] == 0) {
      for (int i = 0; i < WIDTH - 1; ++i) before[i] = 0.0f;
    }
    const vec u = u_of(x, t, C, c);
    vec z = BIAS_OF(c) + LOAD_VEC(f32, taps, c) * u;
    for (int i = 0; i < WIDTH - 1; ++i) z += LOAD_VEC(f32, taps, (i + 1) * C + c) * before[i];
    STORE_VEC(TYPE, y, (size_t)t * C + c, output_of(x, z, t, C, c));
    for (int i = WIDTH - 2; i > 0; --i) before[i] = before[i - 1];
    before[0] = u;
  }
  for (int i = 0; i < WIDTH - 1; ++i) STORE_VEC(f32, state, i * C + c, before[i]);
}
