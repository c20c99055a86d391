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
//! clc: build on cpu: ROWS_AT_ONCE=16
//!     WEIGHT_TYPE={WEIGHT_Q2_K,WEIGHT_IQ4_XS,WEIGHT_MXFP4,WEIGHT_TQ1_0,WEIGHT_NF4,WEIGHT_Q8_Z}
//! clc: build on cpu: ROWS_AT_ONCE=16 WEIGHT_TYPE={WEIGHT_Q4_0,WEIGHT_Q4_1,WEIGHT_Q8_0}
//!     WEIGHT_PACKED
#include "cpu_builtins.clh"
#include "gemm/cpu/gemm_skinny_epilogue_cpu.clh"
#include "gemm/cpu/skinny_dots_cpu.clh"

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
      fetch_low_rank(u, row_groups, problem, m0, count, n0);
      for (uint j = 0; j < width; ++j) {
        __global const uchar* row = weight_row(w, n0 + j, K);
        if (count == 4) {
          const float4 four = dot_row_4(row, rows, rows + K, rows + 2 * (size_t)K, rows + 3 * (size_t)K, K);
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
