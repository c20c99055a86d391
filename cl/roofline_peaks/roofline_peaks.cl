// roofline_peaks: kernels that measure a device's peaks; each of them does one thing only.
//
//   roofline_peaks_copy   dst = src
//   roofline_peaks_read   one sum per item, so that the compiler cannot remove a read
//   roofline_peaks_fma    CHAINS independent chains a <- a x + y of 4 lanes per item, `steps` long
//   roofline_peaks_empty  does nothing, to time a launch
//
// Shapes  src, dst [n] vectors of 4; sums, out [items] vectors of 4
// Types   f32
// Work    items take vectors with a grid stride; every item computes its own chains
// Local   none
// Cost    copy reads 16 n bytes and writes 16 n, read reads 16 n; fma computes 2 * 4 * CHAINS flops
//         per item and step
// Numerics  not relevant; chains converge to y / (1 - x), far from denormal numbers
//! clc: build CHAINS=4
//! clc: budget on gfx90a registers<=64 spills=0
#if CHAINS != 4
#error "CHAINS must be 4: the chains are written out"
#endif

__kernel void roofline_peaks_copy(__global float4* dst, __global const float4* src, long n) {
  const long items = (long)get_global_size(0);
  for (long i = (long)get_global_id(0); i < n; i += items) dst[i] = src[i];
}

__kernel void roofline_peaks_read(__global float4* sums, __global const float4* src, long n) {
  const long items = (long)get_global_size(0);
  long i = (long)get_global_id(0);
  float4 s0 = 0.0f, s1 = 0.0f, s2 = 0.0f, s3 = 0.0f;
  for (; i + 3 * items < n; i += 4 * items) {
    s0 += src[i];
    s1 += src[i + items];
    s2 += src[i + 2 * items];
    s3 += src[i + 3 * items];
  }
  for (; i < n; i += items) s0 += src[i];
  sums[get_global_id(0)] = (s0 + s1) + (s2 + s3);
}

__kernel void roofline_peaks_fma(__global float4* out, long steps, float x, float y) {
  const float first = (float)get_global_id(0) * 1e-6f;
  float4 a0 = first, a1 = first + 0.1f, a2 = first + 0.2f, a3 = first + 0.3f;
  const float4 xs = x, ys = y;
  for (long i = 0; i < steps; ++i) {
    a0 = fma(a0, xs, ys);
    a1 = fma(a1, xs, ys);
    a2 = fma(a2, xs, ys);
    a3 = fma(a3, xs, ys);
  }
  out[get_global_id(0)] = (a0 + a1) + (a2 + a3);
}

__kernel void roofline_peaks_empty(__global float4* out) {
  if (get_global_id(0) >= get_global_size(0)) out[0] = 0.0f;  // no such item exists
}
