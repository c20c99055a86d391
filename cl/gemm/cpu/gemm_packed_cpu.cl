// gemm_packed_cpu: forward products of 12 or more rows with a frozen weight of floats in packed
// panels (quant_packed.clh), which are read in place, without expansion.
//
//   y [M, N] = alpha x [M, K] w [N, K]^T + scale s [M, R] u [R, N] + addend + bias
//   s = a_scale x [M, K] a [R, K]^T      first, if fuse_shrink; else s is an input
//   with column_scale and row groups: gemm_epilogue.clh
//
// Shapes  x [M, K], y and addend [M, N], s [M, R], u [R, N], bias [N]; N a multiple of 16, K of 64;
//         R up to RANK_STEPS if the shrink is fused
// Types   w f32, packed; with -D BF16 bf16, packed, and x, a, s and scale * u rounded to bf16; else
//         f32. With -D AMX as well: on matrix tiles, alpha = 1
// Work    a work-group of one item owns panels_per_group panels of 32 columns and rows_per_group
//         rows. It stages block_steps steps of chunk_rows rows of x at a time, and multiplies them
//         with each of its panels of w; RANK_STEPS steps of the low-rank term accompany each block
//         of steps. Each group computes the s of its rows; the groups with the first panels store
//         it.
//         With row groups, the tiles of the low-rank term begin at the rows of the groups: those of
//         a group are further steps of its rows only, after all of K.
// Local   scratch: a panel of u [RANK_STEPS][32], then rows of x and s [chunk_rows][STAGE_STRIDE],
//         with the steps of s from BLOCK_STEPS on; two steps an element with BF16; in blocks with
//         AMX; then the sums of a fused shrink, floats [chunk_rows][RANK_STEPS]
// Cost    2 M N (K + R) flops, and 2 M K R for each column of groups if the shrink is fused; w is
//         read once for each chunk of rows, x once for each column of groups
// Numerics  f32 fma, or sums as in vdpbf16ps, in order; the sums of later blocks of steps are added
//         to y
//! clc: build on cpu: BLOCK_STEPS=1024 RANK_STEPS=64 STAGE_STRIDE=1104
//! clc: build on cpu: BLOCK_STEPS=1024 RANK_STEPS=64 STAGE_STRIDE=1104
//!     VECTOR_FLOATS={8,4} VECTOR_REGISTERS={16,32}
//! clc: build on avx512_bf16: BLOCK_STEPS=2048 RANK_STEPS=64 STAGE_STRIDE=1072 BF16
//! clc: build on amx: BLOCK_STEPS=2048 RANK_STEPS=64 STAGE_STRIDE=1072 BF16 AMX
#ifdef AMX
#define TILE_ROWS 32
#endif
#include "cpu_builtins.clh"
#include "gemm/cpu/tile_sums_cpu.clh"
#ifdef BF16
#include "bf16_pairs_cpu.clh"
#endif
#ifdef AMX
#include "gemm/cpu/gemm_packed_amx_tile_cpu.clh"
#else
#include "gemm/cpu/gemm_packed_tile_cpu.clh"
#endif
#include "gemm/cpu/gemm_packed_stage_cpu.clh"
#include "gemm/cpu/gemm_packed_shrink_cpu.clh"
#include "gemm/cpu/gemm_share_cpu.clh"

#if !defined(BLOCK_STEPS) || !defined(RANK_STEPS) || !defined(STAGE_STRIDE)
#error "BLOCK_STEPS, RANK_STEPS and STAGE_STRIDE are required"
#endif

// y += the low-rank terms of rows m to m_end, at most those that are staged at once, which may have
// several adapters, in panels p0 to p1.
void add_row_groups(__global float* y, Epilogue epilogue, __global const float* s,
                    __global const float* u, __global const uint* row_groups, GemmProblem problem,
                    __global const ELEMENT* w, uint m, uint m_end, uint p0, uint p1,
                    __local ELEMENT* scratch) {
  const uint N = problem.N, R = problem.R;
  __local ELEMENT* stage = scratch + RANK_STEPS / STEPS_AN_ELEMENT * TILE_COLUMNS;
  const Epilogue more = continued(epilogue, y);
  for (uint group_end; m < m_end; m = group_end) {
    const uint adapter = row_adapter(row_groups, m);
    group_end = row_group_end(row_groups, m, m_end);
    const uint ranks = adapter == NO_ADAPTER ? 0 : row_ranks(row_groups, m, R);
    for (uint r = 0; r < ranks; r += RANK_STEPS) {
      const uint r_end = min(ranks, r + RANK_STEPS);
      stage_rows(stage, s + (size_t)m * R + r, R, group_end - m, r_end - r);
      for (uint p = p0; p < p1; ++p) {
        const uint c0 = p * TILE_COLUMNS, columns = min(N - c0, (uint)TILE_COLUMNS);
        expand_low_rank(scratch, u + (size_t)adapter * R * N, r, r_end, ranks, c0, N, problem.scale);
        for (uint c = 0; c < columns; c += MICRO_COLUMNS) {
          for (uint i = 0; i < group_end - m;) {
            const size_t corner = (size_t)(m + i) * N + c0 + c;
            i += make_tile(y + corner, epilogue_at(more, corner, c0 + c), N, stage, w, 0, 0, 1.0f,
                           stage + i * STAGE_STRIDE, scratch + c, elements_of(r_end - r),
                           group_end - m - i, columns - c, s, 0);
          }
        }
      }
    }
  }
}

__attribute__((reqd_work_group_size(1, 1, 1))) __kernel void gemm_packed(
    __global float* y, __global const float* x, __global const ELEMENT* w,
    __global const float* addend, __global const float* bias, __global float* s,
    __global const float* u, __global const float* a, __global const float* column_scale,
    __global const uint* row_groups, GemmProblem problem, GemmPackedShare share,
    __local ELEMENT* scratch) {
  const uint N = problem.N, K = problem.K;
  const uint R = problem.has_row_groups ? 0 : problem.R;  // of all rows
  const Epilogue epilogue = epilogue_of(problem, addend, bias, column_scale);
  const uint fuse_shrink = problem.fuse_shrink;
  const uint block_steps = share.block_steps, chunk_rows = share.chunk_rows;
  const uint panels = (N + TILE_COLUMNS - 1) / TILE_COLUMNS;
  const uint panel_begin = get_group_id(0) * share.panels_per_group;
  const uint panel_end = min(panels, panel_begin + share.panels_per_group);
  const uint m_begin = get_group_id(1) * share.rows_per_group;
  const uint m_end = min(problem.M, m_begin + share.rows_per_group);
  const size_t panel_elements = (size_t)(K / STEPS_AN_ELEMENT) * 16;
  __local ELEMENT* stage = scratch + RANK_STEPS / STEPS_AN_ELEMENT * TILE_COLUMNS;
  __local ELEMENT* stage_s = stage + STAGE_AT(0, BLOCK_STEPS / STEPS_AN_ELEMENT);
  __local float* sums_s = (__local float*)(stage + chunk_rows * STAGE_STRIDE);
#ifdef AMX
  tiles_begin();
#endif
  for (uint m0 = m_begin; m0 < m_end; m0 += chunk_rows) {
    const uint rows = min(m_end - m0, chunk_rows);
    // While they multiply, tiles prefetch the rows that are staged next, evenly distributed.
    __global const float* ahead = x + (size_t)(m0 + rows) * K;
    size_t to_prefetch = K <= block_steps ? (size_t)min(m_end - m0 - rows, chunk_rows) * K : 0;
    const uint prefetch_step = (TILE_ROWS * STEPS_AN_ELEMENT + panel_end - panel_begin - 1) /
                               (panel_end - panel_begin);
    uint r_end = 0;
    for (uint k = 0, r = 0; k < K || r < R; k += block_steps, r = r_end) {
      const uint steps = k < K ? min(K - k, block_steps) : 0;
      // The s of a fused shrink is complete at the last block, which applies it.
      r_end = fuse_shrink && k + steps < K ? 0 : min(R, r + RANK_STEPS);
      stage_rows(stage, x + (size_t)m0 * K + k, K, rows, steps);
      if (!fuse_shrink) stage_rows(stage_s, s + (size_t)m0 * R + r, R, rows, r_end - r);
      if (fuse_shrink) add_shrink(sums_s, stage, a + k, K, R, rows, steps, k == 0);
      if (fuse_shrink && r_end == R) {
        finish_shrink(get_group_id(0) == 0 ? s + (size_t)m0 * R : 0, stage_s, sums_s, R, rows,
                      problem.a_scale);
      }
      for (uint p = panel_begin; p < panel_end; ++p) {
        const uint c0 = p * TILE_COLUMNS;
        const uint columns = min(N - c0, (uint)TILE_COLUMNS);
        // Half a panel of columns uses its packed panel twice and keeps the first sums.
        __global const ELEMENT* packed =
            w + 2 * p * panel_elements + (size_t)(k / STEPS_AN_ELEMENT) * 16;
        const size_t to_next = columns == TILE_COLUMNS ? panel_elements : 0;
        expand_low_rank(scratch, u, r, r_end, R, c0, N, problem.scale);
        // All rows use a strip of a panel as wide as a micro-tile before the next one: the strip
        // of a block stays in the first-level cache.
        for (uint c = 0; c < columns; c += MICRO_COLUMNS) {
          __global const ELEMENT* strip = packed + c / 16 * to_next + c % 16;
          for (uint i = 0; i < rows;) {
            const size_t corner = (size_t)(m0 + i) * N + c0 + c;
            // Later blocks of steps continue from the sums that the first one has stored.
            const Epilogue e =
                epilogue_at(k == 0 ? epilogue : continued(epilogue, y), corner, c0 + c);
            const uint ahead_step = c == 0 && to_prefetch > 0 ? prefetch_step : 0;
            i += make_tile(y + corner, e, N, stage + i * STAGE_STRIDE, strip, to_next,
                           elements_of(steps), problem.alpha, stage_s + i * STAGE_STRIDE,
                           scratch + c, elements_of(r_end - r), rows - i, columns - c, ahead,
                           ahead_step);
            const size_t prefetched = min(to_prefetch, (size_t)elements_of(steps) * ahead_step);
            ahead += prefetched;
            to_prefetch -= prefetched;
          }
        }
      }
    }
    if (problem.has_row_groups) {
      add_row_groups(y, epilogue, s, u, row_groups, problem, w, m0, m0 + rows, panel_begin,
                     panel_end, scratch);
    }
  }
#ifdef AMX
  tiles_end();
#endif
}
