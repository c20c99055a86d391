// norm_gradient: gradients of the weight and the bias of a norm over the last dimension, summed
// over rows in a fixed order.
//   n[t, d] = (x[t, d] - mean[t]) r[t]: of rms_norm mean = 0 and r = 1 / sqrt(mean(x^2) + epsilon);
//   with -D HAS_BIAS, of layer_norm, mean = mean(x) and r = 1 / sqrt(var(x) + epsilon)
//   norm_gradient_statistics  statistics[t] = (mean[t], r[t])
//   norm_gradient_parts       parts[0, c, d] = sum of dy[t, d] n[t, d] over the rows t of chunk c,
//                             with HAS_BIAS parts[1, c, d] = sum of dy[t, d] over them
//   norm_gradient_add         d[n] += factor sum_c parts[first + c, n]
// Shapes  dy, x [T, N]; statistics [T, 2]; parts [1 or 2, chunks, N]; d [N]
// Types   x and dy of -D X_TYPE, DY_TYPE: f32, bf16 or f16; all else f32
// Work    statistics: a group of GROUP items owns a row. parts: an item owns VEC_SIZE columns
//         (dimension 0) of a chunk of chunk_rows rows (dimension 1), or with -D BY_ROWS, for CPUs,
//         all columns of a chunk, row by row; it then computes the statistics itself and sums in
//         memory. add: a group of GROUP items owns COLUMNS columns, of which GROUP / COLUMNS items
//         sum every so many-th chunk
// Local   statistics, add: GROUP floats
// Cost    reads x twice (BY_ROWS: once, then from the cache) and dy once, about 6 flops an element
// Numerics  float sums in a fixed order; the variance is the mean square of the differences from
//         the mean, in a pass of its own
//! clc: build VEC_SIZE={1,4,8} X_TYPE={f32,bf16} DY_TYPE={f32,bf16} GROUP=64 COLUMNS=8
//! clc: build VEC_SIZE=4 X_TYPE=f16 DY_TYPE=f16 GROUP=64 COLUMNS=8 HAS_BIAS
//! clc: build VEC_SIZE={1,8} X_TYPE=f32 DY_TYPE=f32 GROUP=64 COLUMNS=8 BY_ROWS
//! clc: build VEC_SIZE={1,8} X_TYPE=f32 DY_TYPE=f32 GROUP=64 COLUMNS=8 BY_ROWS HAS_BIAS
//! clc: budget on gfx90a registers<=64 spills=0
#if !defined(X_TYPE) || !defined(DY_TYPE) || !defined(GROUP) || !defined(COLUMNS)
#error "X_TYPE, DY_TYPE, GROUP and COLUMNS are required"
#endif
#include "activations.clh"

#ifdef BY_ROWS
// The (mean, r) of a row of `vecs` vectors.
float2 statistics_of(__global const STORED(X_TYPE)* x, uint vecs, float epsilon) {
  const float width = (float)(vecs * VEC_SIZE);
  float mean = 0.0f;
#ifdef HAS_BIAS
  vec sum = 0.0f;
  for (uint i = 0; i < vecs; ++i) sum += LOAD_VEC(X_TYPE, x, i);
  mean = sum_of_lanes(sum) / width;
#endif
  vec squares = 0.0f;
  for (uint i = 0; i < vecs; ++i) {
    const vec difference = LOAD_VEC(X_TYPE, x, i) - mean;
    squares = fma(difference, difference, squares);
  }
  return (float2)(mean, rsqrt(sum_of_lanes(squares) / width + epsilon));
}

__kernel void norm_gradient_parts(__global float* parts, __global const STORED(DY_TYPE)* dy,
                                  __global const STORED(X_TYPE)* x, uint T, uint N,
                                  uint chunk_rows, float epsilon) {
  const uint vecs = N / VEC_SIZE, chunk = get_global_id(1);
  const uint begin = chunk * chunk_rows, end = min(T, begin + chunk_rows);
#ifdef HAS_BIAS
  __global float* bias_parts = parts + ((size_t)get_global_size(1) + chunk) * N;
  for (uint i = 0; i < vecs; ++i) STORE_VEC(f32, bias_parts, i, (vec)(0.0f));
#endif
  parts += (size_t)chunk * N;
  for (uint i = 0; i < vecs; ++i) STORE_VEC(f32, parts, i, (vec)(0.0f));
  for (uint t = begin; t < end; ++t) {
    __global const STORED(X_TYPE)* row = x + (size_t)t * N;
    __global const STORED(DY_TYPE)* drow = dy + (size_t)t * N;
    const float2 s = statistics_of(row, vecs, epsilon);
    for (uint i = 0; i < vecs; ++i) {
      const vec d = LOAD_VEC(DY_TYPE, drow, i);
      const vec n = (LOAD_VEC(X_TYPE, row, i) - s.x) * s.y;
      STORE_VEC(f32, parts, i, fma(d, n, LOAD_VEC(f32, parts, i)));
#ifdef HAS_BIAS
      STORE_VEC(f32, bias_parts, i, LOAD_VEC(f32, bias_parts, i) + d);
#endif
    }
  }
}
#else
// The sum of the values of all items, in every item.
float group_sum(float value, __local float* sums) {
  const uint item = get_local_id(0);
  barrier(CLK_LOCAL_MEM_FENCE);  // the sum before has been read
  sums[item] = value;
  for (uint apart = GROUP / 2; apart > 0; apart /= 2) {
    barrier(CLK_LOCAL_MEM_FENCE);  // both values of each pair are written
    if (item < apart) sums[item] += sums[item + apart];
  }
  barrier(CLK_LOCAL_MEM_FENCE);  // the sum of all is written
  return sums[0];
}

__attribute__((reqd_work_group_size(GROUP, 1, 1))) __kernel void norm_gradient_statistics(
    __global float2* statistics, __global const STORED(X_TYPE)* x, uint N, float epsilon) {
  __local float sums[GROUP];
  const uint item = get_local_id(0), vecs = N / VEC_SIZE;
  x += (size_t)get_group_id(0) * N;
  float mean = 0.0f;
#ifdef HAS_BIAS
  vec sum = 0.0f;
  for (uint i = item; i < vecs; i += GROUP) sum += LOAD_VEC(X_TYPE, x, i);
  mean = group_sum(sum_of_lanes(sum), sums) / (float)N;
#endif
  vec squares = 0.0f;
  for (uint i = item; i < vecs; i += GROUP) {
    const vec difference = LOAD_VEC(X_TYPE, x, i) - mean;
    squares = fma(difference, difference, squares);
  }
  const float variance = group_sum(sum_of_lanes(squares), sums) / (float)N;
  if (item == 0) statistics[get_group_id(0)] = (float2)(mean, rsqrt(variance + epsilon));
}

__kernel void norm_gradient_parts(__global float* parts, __global const STORED(DY_TYPE)* dy,
                                  __global const STORED(X_TYPE)* x,
                                  __global const float2* statistics, uint T, uint N,
                                  uint chunk_rows) {
  const uint vecs = N / VEC_SIZE, at = get_global_id(0), chunk = get_global_id(1);
  const size_t begin = (size_t)chunk * chunk_rows, end = min((size_t)T, begin + chunk_rows);
  if (at >= vecs) return;
  vec sum = 0.0f;
#ifdef HAS_BIAS
  vec bias_sum = 0.0f;
#endif
  for (size_t t = begin; t < end; ++t) {
    const long i = (long)(t * vecs + at);
    const vec d = LOAD_VEC(DY_TYPE, dy, i);
    const float2 s = statistics[t];
    sum = fma(d, (LOAD_VEC(X_TYPE, x, i) - s.x) * s.y, sum);
#ifdef HAS_BIAS
    bias_sum += d;
#endif
  }
  STORE_VEC(f32, parts, (long)chunk * vecs + at, sum);
#ifdef HAS_BIAS
  STORE_VEC(f32, parts, (long)(get_global_size(1) + chunk) * vecs + at, bias_sum);
#endif
}
#endif

#define LANES_OF_COLUMN (GROUP / COLUMNS)

__attribute__((reqd_work_group_size(GROUP, 1, 1))) __kernel void norm_gradient_add(
    __global float* d, __global const float* parts, float factor, uint N, uint first, uint chunks) {
  __local float sums[GROUP];
  const uint item = get_local_id(0), lane = item / COLUMNS;
  const uint n = get_group_id(0) * COLUMNS + item % COLUMNS;
  float sum = 0.0f;
  parts += (size_t)first * N;
  if (n < N) {
    for (uint c = lane; c < chunks; c += LANES_OF_COLUMN) sum += parts[(size_t)c * N + n];
  }
  sums[item] = sum;
  barrier(CLK_LOCAL_MEM_FENCE);  // all sums are written
  if (lane != 0 || n >= N) return;
  float all = 0.0f;
  for (uint i = 0; i < LANES_OF_COLUMN; ++i) all += sums[i * COLUMNS + item];
  d[n] = fma(factor, all, d[n]);
}
