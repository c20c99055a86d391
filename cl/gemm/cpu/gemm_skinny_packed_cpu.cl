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
#include "gemm/cpu/skinny_panel_dots_cpu.clh"

#if ROWS_AT_ONCE != PACKED_ROWS
#error "ROWS_AT_ONCE must be the rows of a packed panel"
#endif

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
      fetch_low_rank(u, row_groups, problem, m0, count, n0);
      if (count == 4) {
        dot_panel_4(panel, rows, rows + K, rows + 2 * (size_t)K, rows + 3 * (size_t)K, K, sums);
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
