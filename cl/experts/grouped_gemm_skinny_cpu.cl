// grouped_gemm_skinny_cpu: products of few rows with the weights of their experts (decoding) on CPU
// devices.
//
//   y [S, N] = alpha x [rows, K] w_e [N, K]^T + scale s [S, R] u_e [R, N]
//
// Shapes  those of grouped_gemm.cl; counts, begins and active as in router.cl
// Types   w in any storage type (quant.clh), all else f32
// Work    a work-group of one item owns columns_per_group columns of one expert that has entries, a
//         multiple of ROWS_AT_ONCE, and all of its rows. ROWS_AT_ONCE rows of w_e at a time are
//         expanded into registers and multiplied with four rows of x at once (fewer: one by one),
//         as gemm_skinny_cpu.cl and gemm_skinny_packed_cpu.cl do. The last groups write the zeros
//         of the slots after those of all experts. With -D INTEGERS, packed quantised weights are
//         multiplied in integer arithmetic, as gemm_skinny_int8_cpu.cl does: each group converts
//         four rows of x to integers, and applies all of its columns to them.
// Local   scratch, with INTEGERS: four rows of x as integers (gemm_int8_cpu.clh), else one byte
// Cost    reads w_e once for each four entries of an expert: memory-bound
// Numerics  those of these kernels. Rows of unused slots, and of experts without a matrix, are
//         zeros
//! clc: build on cpu: ROWS_AT_ONCE=16
//!     WEIGHT_TYPE={WEIGHT_F32,WEIGHT_F16,WEIGHT_BF16,WEIGHT_Q4_1,WEIGHT_Q6_K,WEIGHT_Q8_0}
//! clc: build on cpu: ROWS_AT_ONCE=16 WEIGHT_TYPE={WEIGHT_F32,WEIGHT_BF16,WEIGHT_Q4_0,WEIGHT_Q8_0}
//!     WEIGHT_PACKED
//! clc: build on avx512_vnni: ROWS_AT_ONCE=16 WEIGHT_TYPE={WEIGHT_Q4_0,WEIGHT_Q4_1,WEIGHT_Q8_0}
//!     WEIGHT_PACKED INTEGERS
//! clc: build on avx2: ROWS_AT_ONCE=16 WEIGHT_TYPE={WEIGHT_Q4_0,WEIGHT_Q4_1,WEIGHT_Q8_0}
//!     WEIGHT_PACKED INTEGERS INT8_AVX2
#include "cpu_builtins.clh"
#include "gemm/cpu/gemm_skinny_epilogue_cpu.clh"
#include "float16_math.clh"
#include "quant/quant.clh"
#ifdef INTEGERS
#include "gemm/cpu/gemm_int8_cpu.clh"
#elif defined(WEIGHT_PACKED) && (WEIGHT_TYPE == WEIGHT_F32 || WEIGHT_TYPE == WEIGHT_BF16)
#include "gemm/cpu/skinny_panel_dots_cpu.clh"
#define HAS_PANELS
#else
#include "gemm/cpu/skinny_dots_cpu.clh"
#endif
#include "experts/expert_operands_cpu.clh"

#define ROWS 4  // of x at once

#ifdef INTEGERS
// y of slots begin to end, columns n_begin to n_end.
void multiply_columns(__global float* y, ExpertOperands of, GroupedProblem p, uint begin, uint end,
                      uint n_begin, uint n_end, __local char* scratch) {
  const Epilogue nothing = {0, 0, 0};
  const uint row_bytes = ROW_BYTES(p.K);
  for (uint m0 = begin; m0 < end; m0 += ROWS) {
    const uint m1 = min(end, m0 + ROWS);
    for (uint m = m0; m < m1; ++m) round_row(scratch + (m - m0) * row_bytes, x_row(of, p, m), p.K);
    for (uint n = n_begin; n < n_end; n += ROWS_AT_ONCE) {
      __global const uchar* panel = weight_row(of.w, n, p.K);
      for (uint m = m0; m < m1;) {
        const uint count = rows_at_once(m1 - m);
        float16 sums[MOST_ROWS];
        packed_dots(sums, panel, scratch + (m - m0) * row_bytes, p.K, count);
        for (uint i = 0; i < count; ++i, ++m) {
          finish_outputs(y + (size_t)m * p.N + n, (const float*)(sums + i), nothing,
                         of.s + (size_t)m * p.R, of.u + n, ROWS_AT_ONCE, p.N, of.R, p.alpha,
                         p.scale);
        }
      }
    }
  }
}
#else
// sums [ROWS][ROWS_AT_ONCE] of the first `count` rows of x with rows n0 to n0 + width of w.
void dots(float* sums, __global const uchar* w, uint n0, uint width, __global const float* x[ROWS],
          uint count, uint K) {
#ifdef HAS_PANELS
  __global const uint* panel = (__global const uint*)weight_row(w, n0, K);
  if (count == ROWS) {
    dot_panel_4(panel, x[0], x[1], x[2], x[3], K, sums);
  } else {
    for (uint i = 0; i < count; ++i) dot_panel(panel, x[i], K, sums + i * ROWS_AT_ONCE);
  }
#else
  for (uint j = 0; j < width; ++j) {
    __global const uchar* row = weight_row(w, n0 + j, K);
    if (count == ROWS) {
      const float4 four = dot_row_4(row, x[0], x[1], x[2], x[3], K);
      sums[j] = four.x;
      sums[ROWS_AT_ONCE + j] = four.y;
      sums[2 * ROWS_AT_ONCE + j] = four.z;
      sums[3 * ROWS_AT_ONCE + j] = four.w;
    } else {
      for (uint i = 0; i < count; ++i) sums[i * ROWS_AT_ONCE + j] = dot_row(row, x[i], K);
    }
  }
#endif
}

// y of slots begin to end, columns n0 to n0 + width <= ROWS_AT_ONCE.
void multiply_few_columns(__global float* y, ExpertOperands of, GroupedProblem p, uint begin,
                          uint end, uint n0, uint width) {
  const Epilogue nothing = {0, 0, 0};
  for (uint m = begin; m < end; m += ROWS) {
    const uint count = min(end - m, (uint)ROWS);
    __global const float* x[ROWS];
    for (uint i = 0; i < count; ++i) x[i] = x_row(of, p, m + i);
    float sums[ROWS * ROWS_AT_ONCE];
    dots(sums, of.w, n0, width, x, count, p.K);
    for (uint i = 0; i < count; ++i) {
      finish_outputs(y + (size_t)(m + i) * p.N + n0, sums + i * ROWS_AT_ONCE, nothing,
                     of.s + (size_t)(m + i) * p.R, of.u + n0, width, p.N, of.R, p.alpha, p.scale);
    }
  }
}

// y of slots begin to end, columns n_begin to n_end.
void multiply_columns(__global float* y, ExpertOperands of, GroupedProblem p, uint begin, uint end,
                      uint n_begin, uint n_end, __local char* scratch) {
  for (uint n0 = n_begin; n0 < n_end; n0 += ROWS_AT_ONCE) {
    multiply_few_columns(y, of, p, begin, end, n0, min(n_end - n0, (uint)ROWS_AT_ONCE));
  }
}
#endif

__attribute__((reqd_work_group_size(1, 1, 1))) __kernel void grouped_gemm_skinny(
    __global float* y, __global const float* x, __global const uchar* w,
    __global const uint* w_offsets, __global const float* s, __global const float* u,
    __global const uint* u_offsets, __global const int* entries, __global const int* counts,
    __global const int* begins, __global const int* active, GroupedProblem p,
    uint columns_per_group, __local char* scratch) {
  const uint n_begin = get_group_id(0) * columns_per_group;
  const uint n_end = min(p.N, n_begin + columns_per_group), number = get_group_id(1);
  if (number + 1 == get_num_groups(1)) {
    store_zeros(y, p.N, begins[p.experts], p.S, n_begin, n_end);
    return;
  }
  const int expert = active[number];
  if (expert < 0) return;
  const ExpertOperands of = operands_of(w, w_offsets, x, s, u, u_offsets, entries, p, expert);
  const uint begin = begins[expert], end = of.w == 0 ? begin : begin + counts[expert];
  store_zeros(y, p.N, end, begins[expert + 1], n_begin, n_end);
  multiply_columns(y, of, p, begin, end, n_begin, n_end, scratch);
}
