// gemm_skinny_cpu: skinny forward products (decoding) on CPU devices.
//
//   y [M, N] = alpha x [M, K] w [N, K]^T + scale s [M, R] u [R, N] + addend + bias
//   with column_scale and row groups: gemm_epilogue.clh
//
// Shapes  as above; M small
// Types   w in any storage type (quant.clh), all else f32
// Work    a work-group of one item owns rows_per_group rows of w, ROWS_AT_ONCE at a time. Each 32
//         elements of a row are expanded into registers and multiplied with four rows of x at once
//         (fewer: one by one), which are in L1; the epilogue processes ROWS_AT_ONCE outputs at
//         once.
// Local   none
// Cost    reads w once (for M <= 4): memory-bound
// Numerics  f32 fma in 32 partial sums of stride 32, then a tree
//! clc: build on cpu: ROWS_AT_ONCE=16
//!     WEIGHT_TYPE={WEIGHT_F32,WEIGHT_F16,WEIGHT_BF16,WEIGHT_Q4_1,WEIGHT_Q6_K,WEIGHT_Q8_0}
//! clc: build on cpu: ROWS_AT_ONCE=16 WEIGHT_TYPE={WEIGHT_Q4_0,WEIGHT_Q4_1,WEIGHT_Q8_0}
//!     WEIGHT_PACKED
#include "cpu_builtins.clh"
#include "gemm/cpu/gemm_skinny_epilogue_cpu.clh"
#include "quant/quant_block32.clh"

float sum_of(float16 v) {
  const float8 eight = v.lo + v.hi;
  const float4 four = eight.lo + eight.hi;
  const float2 two = four.lo + four.hi;
  return two.x + two.y;
}

// sum over k of w[k] x[k]
__attribute__((noinline)) float dot_row(__global const uchar* row, __global const float* x,
                                        uint K) {
  float16 sum_lo = 0.0f, sum_hi = 0.0f;
  uint k = 0;
  for (; k + 32 <= K; k += 32) {
    float16 lo, hi;
    weight_block32(row, k, &lo, &hi);
    sum_lo = fma(lo, vload16(0, x + k), sum_lo);
    sum_hi = fma(hi, vload16(1, x + k), sum_hi);
  }
  float sum = sum_of(sum_lo + sum_hi);
  for (; k < K; ++k) sum = fma(weight_at(row, k), x[k], sum);
  return sum;
}

// The same for four rows of x.
__attribute__((noinline)) float4 dot_row_4(__global const uchar* row, __global const float* x,
                                           uint K) {
  __global const float* x1 = x + K;
  __global const float* x2 = x1 + K;
  __global const float* x3 = x2 + K;
  float16 sum0 = 0.0f, sum1 = 0.0f, sum2 = 0.0f, sum3 = 0.0f;
  uint k = 0;
  for (; k + 32 <= K; k += 32) {
    float16 lo, hi;
    weight_block32(row, k, &lo, &hi);
    sum0 = fma(hi, vload16(1, x + k), fma(lo, vload16(0, x + k), sum0));
    sum1 = fma(hi, vload16(1, x1 + k), fma(lo, vload16(0, x1 + k), sum1));
    sum2 = fma(hi, vload16(1, x2 + k), fma(lo, vload16(0, x2 + k), sum2));
    sum3 = fma(hi, vload16(1, x3 + k), fma(lo, vload16(0, x3 + k), sum3));
  }
  float4 sum = (float4)(sum_of(sum0), sum_of(sum1), sum_of(sum2), sum_of(sum3));
  for (; k < K; ++k) {
    sum = fma((float4)(weight_at(row, k)), (float4)(x[k], x1[k], x2[k], x3[k]), sum);
  }
  return sum;
}

__attribute__((reqd_work_group_size(1, 1, 1))) __kernel void gemm_skinny(
    __global float* y, __global const float* x, __global const uchar* w,
    __global const float* addend, __global const float* bias, __global const float* s,
    __global const float* u, __global const float* column_scale,
    __global const uint* row_groups, GemmProblem problem, uint rows_per_group) {
  const uint M = problem.M, N = problem.N, K = problem.K;
  const Epilogue epilogue = epilogue_of(problem, addend, bias, column_scale);
  const uint n_begin = get_group_id(0) * rows_per_group;
  const uint n_end = min(N, n_begin + rows_per_group);
  for (uint n0 = n_begin; n0 < n_end; n0 += ROWS_AT_ONCE) {
    const uint width = min(n_end - n0, (uint)ROWS_AT_ONCE);
    for (uint m0 = 0; m0 < M; m0 += 4) {
      const uint count = min(M - m0, 4u);
      __global const float* rows = x + (size_t)m0 * K;
      float sums[4][ROWS_AT_ONCE];
      for (uint j = 0; j < width; ++j) {
        __global const uchar* row = weight_row(w, n0 + j, K);
        if (count == 4) {
          const float4 four = dot_row_4(row, rows, K);
          sums[0][j] = four.x;
          sums[1][j] = four.y;
          sums[2][j] = four.z;
          sums[3][j] = four.w;
        } else {
          for (uint i = 0; i < count; ++i) sums[i][j] = dot_row(row, rows + (size_t)i * K, K);
        }
      }
      for (uint i = 0; i < count; ++i) {
        finish_row(y, sums[i], epilogue, s, u, row_groups, problem, m0 + i, n0, width);
      }
    }
  }
}
