// roofline_peaks for CPU devices: the same measurements as roofline_peaks.cl, with explicit
// vectors.
//
// Formula, Shapes, Types, Cost: as roofline_peaks.cl, except for the flops of a step: see CHAINS
// Work    groups of one item share the vectors of 16 evenly (group_range.clh); every group computes
//         its own chains
// Local   none
// Numerics  not relevant; chains converge to y / (1 - x), far from denormal numbers
//! clc: build on cpu: CHAINS=12
//! clc: build on cpu: CHAINS=12 VECTOR_FLOATS={8,4} VECTOR_REGISTERS={16,32}
#include "group_range.clh"
#include "vectors_cpu.clh"

#define CPU_KERNEL __attribute__((reqd_work_group_size(1, 1, 1))) __kernel void

// n: the number of vectors of 16
CPU_KERNEL roofline_peaks_copy(__global float16* dst, __global const float16* src, long n) {
  const long end = group_end(n);
  for (long i = group_begin(n); i < end; ++i) dst[i] = src[i];
}

CPU_KERNEL roofline_peaks_read(__global float16* sums, __global const float16* src, long n) {
  const long end = group_end(n);
  long i = group_begin(n);
  float16 s0 = 0.0f, s1 = 0.0f, s2 = 0.0f, s3 = 0.0f;
  for (; i + 4 <= end; i += 4) {
    s0 += src[i];
    s1 += src[i + 1];
    s2 += src[i + 2];
    s3 += src[i + 3];
  }
  for (; i < end; ++i) s0 += src[i];
  sums[get_group_id(0)] = (s0 + s1) + (s2 + s3);
}

// CHAINS independent chains of a vector: enough to fill two units with a latency of five steps, and
// few enough for 16 registers to hold all of them and both factors.
#if CHAINS != 12
#error "CHAINS must be 12: the chains are written out"
#endif
// out: VECTOR_FLOATS elements of each group are written.
CPU_KERNEL roofline_peaks_fma(__global float16* out, long steps, float x, float y) {
  FLOATS a0 = 0.0f, a1 = 0.1f, a2 = 0.2f, a3 = 0.3f, a4 = 0.4f, a5 = 0.5f;
  FLOATS a6 = 0.6f, a7 = 0.7f, a8 = 0.8f, a9 = 0.9f, a10 = 1.0f, a11 = 1.1f;
  const FLOATS xs = x, ys = y;
  for (long i = 0; i < steps; ++i) {
    a0 = fma(a0, xs, ys);
    a1 = fma(a1, xs, ys);
    a2 = fma(a2, xs, ys);
    a3 = fma(a3, xs, ys);
    a4 = fma(a4, xs, ys);
    a5 = fma(a5, xs, ys);
    a6 = fma(a6, xs, ys);
    a7 = fma(a7, xs, ys);
    a8 = fma(a8, xs, ys);
    a9 = fma(a9, xs, ys);
    a10 = fma(a10, xs, ys);
    a11 = fma(a11, xs, ys);
  }
  const FLOATS sum = ((a0 + a1) + (a2 + a3)) + ((a4 + a5) + (a6 + a7)) + ((a8 + a9) + (a10 + a11));
  store_vector(__global, (__global float*)(out + get_group_id(0)), sum);
}

CPU_KERNEL roofline_peaks_empty(__global float16* out) {
  if (get_group_id(0) > 0) out[0] = 0.0f;  // the host launches one group
}
