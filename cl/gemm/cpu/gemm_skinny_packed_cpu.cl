// gemm_skinny_packed_cpu: skinny forward products (decoding) with a frozen weight of floats in
// packed panels (quant_packed.clh), on CPU devices.
//
//   y [M, N] = alpha x [M, K] w [N, K]^T + scale s [M, R] u [R, N] + addend + bias
//   with column_scale and row groups: gemm_epilogue.clh
//
// Shapes  as above; M small, N a multiple of 16, K of 64
// Types   w f32 or bf16 (-D WEIGHT_TYPE), packed, all else f32: x is not rounded
// Work    a work-group of one item owns panels_per_group panels of 16 outputs and multiplies each
//         with four rows of x at once (fewer: one by one). Lanes are outputs.
// Local   none
// Cost    reads w once (for M <= 4): memory-bound
// Numerics  f32 fma in four (one row) or two (four rows) partial sums
//! clc: build on cpu: ROWS_AT_ONCE=16 WEIGHT_TYPE={WEIGHT_F32,WEIGHT_BF16} WEIGHT_PACKED
#include "cpu_builtins.clh"
#include "gemm/cpu/gemm_skinny_epilogue_cpu.clh"
#include "quant/quant.clh"

#if ROWS_AT_ONCE != PACKED_ROWS
#error "ROWS_AT_ONCE must be the rows of a packed panel"
#endif

// Loads the elements k and k + 1 of 16 rows; `panel` is the panel's first word.
#if WEIGHT_TYPE == WEIGHT_F32
#define LOAD_TWO(k)                                 \
  const float16 even = as_float16(vload16(k, panel)); \
  const float16 odd = as_float16(vload16((k) + 1, panel));
#else
#define LOAD_TWO(k)                                   \
  const uint16 pairs = vload16((k) / 2, panel);       \
  const float16 even = as_float16(pairs << 16);       \
  const float16 odd = as_float16(pairs & 0xffff0000u);
#endif

__attribute__((noinline)) void dot_panel(__global const uint* panel, __global const float* x,
                                         uint K, float* sums) {
  float16 sum0 = 0.0f, sum1 = 0.0f, sum2 = 0.0f, sum3 = 0.0f;
  for (uint k = 0; k < K; k += 4) {
    {
      LOAD_TWO(k)
      sum0 = fma(even, (float16)(x[k]), sum0);
      sum1 = fma(odd, (float16)(x[k + 1]), sum1);
    }
    {
      LOAD_TWO(k + 2)
      sum2 = fma(even, (float16)(x[k + 2]), sum2);
      sum3 = fma(odd, (float16)(x[k + 3]), sum3);
    }
  }
  vstore16((sum0 + sum1) + (sum2 + sum3), 0, sums);
}

// The same for four rows of x; sums [4][16].
__attribute__((noinline)) void dot_panel_4(__global const uint* panel, __global const float* x,
                                           uint K, float* sums) {
  __global const float* x1 = x + K;
  __global const float* x2 = x1 + K;
  __global const float* x3 = x2 + K;
  float16 even0 = 0.0f, even1 = 0.0f, even2 = 0.0f, even3 = 0.0f;
  float16 odd0 = 0.0f, odd1 = 0.0f, odd2 = 0.0f, odd3 = 0.0f;
  for (uint k = 0; k < K; k += 2) {
    LOAD_TWO(k)
    even0 = fma(even, (float16)(x[k]), even0);
    even1 = fma(even, (float16)(x1[k]), even1);
    even2 = fma(even, (float16)(x2[k]), even2);
    even3 = fma(even, (float16)(x3[k]), even3);
    odd0 = fma(odd, (float16)(x[k + 1]), odd0);
    odd1 = fma(odd, (float16)(x1[k + 1]), odd1);
    odd2 = fma(odd, (float16)(x2[k + 1]), odd2);
    odd3 = fma(odd, (float16)(x3[k + 1]), odd3);
  }
  vstore16(even0 + odd0, 0, sums);
  vstore16(even1 + odd1, 1, sums);
  vstore16(even2 + odd2, 2, sums);
  vstore16(even3 + odd3, 3, sums);
}

__attribute__((reqd_work_group_size(1, 1, 1))) __kernel void gemm_skinny_packed(
    __global float* y, __global const float* x, __global const uchar* w,
    __global const float* addend, __global const float* bias, __global const float* s,
    __global const float* u, __global const float* column_scale,
    __global const uint* row_groups, GemmProblem problem, uint panels_per_group) {
  const uint M = problem.M, N = problem.N, K = problem.K;
  const Epilogue epilogue = epilogue_of(problem, addend, bias, column_scale);
  const uint panel_begin = get_group_id(0) * panels_per_group;
  const uint panel_end = min(N / PACKED_ROWS, panel_begin + panels_per_group);
  for (uint at = panel_begin; at < panel_end; ++at) {
    const uint n0 = at * PACKED_ROWS;
    __global const uint* panel = (__global const uint*)weight_row(w, n0, K);
    for (uint m0 = 0; m0 < M; m0 += 4) {
      const uint count = min(M - m0, 4u);
      __global const float* rows = x + (size_t)m0 * K;
      float sums[4 * PACKED_ROWS];
      if (count == 4) {
        dot_panel_4(panel, rows, K, sums);
      } else {
        for (uint i = 0; i < count; ++i) {
          dot_panel(panel, rows + (size_t)i * K, K, sums + i * PACKED_ROWS);
        }
      }
      for (uint i = 0; i < count; ++i) {
        finish_row(y, sums + i * PACKED_ROWS, epilogue, s, u, row_groups, problem, m0 + i, n0,
                   PACKED_ROWS);
      }
    }
  }
}
