// gemm_skinny_int8_cpu: the products of gemm_skinny in integer arithmetic, for packed weights on
// CPUs with avx512_vnni, AVX-VNNI or AVX2.
//
//   y [M, N] = alpha x16 [M, K] w [N, K]^T + scale s [M, R] u [R, N] + addend + bias
//   with column_scale and row groups: gemm_epilogue.clh
//
// Shapes  as above; M small, N a multiple of 16, K of 64
// Types   w quantised blocks, packed (quant_packed.clh), all else f32
// Work    a work-group of one item owns panels_per_group panels of 16 rows of w. It converts
//         rows_held rows of x to integers, separately in each group, since a row costs less than a
//         panel; then it multiplies each panel with four of them at once (fewer, or with AVX2
//         registers: one by one).
// Local   scratch [rows held]: a row is K bytes of first digits, K of second digits, then two
//         floats for each 32 elements: the scale, and the sum of the represented elements
// Cost    reads w once for each rows_held rows: memory-bound
// Numerics  a block of 32 elements of x becomes d (q1 + q2 / 256), d = max |x| / 127, q1 and q2
//         signed bytes: within max |x| / 65024 of x (one digit alone: max |x| / 254). Products
//         and sums of a block are exact integers; blocks are added in f32, in order. A non-finite
//         element makes its row of y NaN.
//! clc: build on avx512_vnni: ROWS_AT_ONCE=16 WEIGHT_TYPE={WEIGHT_Q4_0,WEIGHT_Q4_1,WEIGHT_Q8_0}
//!     WEIGHT_PACKED
//! clc: build on avx2: ROWS_AT_ONCE=16 WEIGHT_TYPE={WEIGHT_Q4_0,WEIGHT_Q4_1,WEIGHT_Q8_0}
//!     WEIGHT_PACKED INT8_AVX2
//! clc: build on avx2: ROWS_AT_ONCE=16 WEIGHT_TYPE={WEIGHT_Q4_0,WEIGHT_Q4_1,WEIGHT_Q8_0}
//!     WEIGHT_PACKED INT8_AVX_VNNI
#include "gemm/cpu/gemm_skinny_epilogue_cpu.clh"
#include "gemm/cpu/gemm_int8_cpu.clh"

__attribute__((reqd_work_group_size(1, 1, 1))) __kernel void gemm_skinny_int8(
    __global float* y, __global const float* x, __global const uchar* w,
    __global const float* addend, __global const float* bias, __global const float* s,
    __global const float* u, __global const float* column_scale,
    __global const uint* row_groups, GemmProblem problem, uint panels_per_group, uint rows_held,
    __local char* scratch) {
  const uint M = problem.M, N = problem.N, K = problem.K;
  const Epilogue epilogue = epilogue_of(problem, addend, bias, column_scale);
  const uint n_begin = get_group_id(0) * panels_per_group * PACKED_ROWS;
  const uint n_end = min(N, n_begin + panels_per_group * PACKED_ROWS);
  const uint row_bytes = ROW_BYTES(K);
  for (uint m_held = 0; m_held < M; m_held += rows_held) {
    const uint held = min(M - m_held, rows_held);
    for (uint i = 0; i < held; ++i) {
      round_row(scratch + i * row_bytes, x + (size_t)(m_held + i) * K, K);
    }
    for (uint n = n_begin; n < n_end; n += PACKED_ROWS) {
      __global const uchar* panel = weight_row(w, n, K);
      for (uint i0 = 0; i0 < held;) {
        const uint count = rows_at_once(held - i0);
        float16 sums[MOST_ROWS];
        fetch_low_rank(u, row_groups, problem, m_held + i0, count, n);
        packed_dots(sums, panel, scratch + i0 * row_bytes, K, count);
        for (uint i = 0; i < count; ++i) {
          finish_row(y, (const float*)(sums + i), epilogue, s, u, row_groups, problem,
                     m_held + i0 + i, n, PACKED_ROWS);
        }
        i0 += count;
      }
    }
  }
}
