// gemm_bf16_cpu: gemm_cpu's products with both operands rounded to bf16, on CPUs with avx512_bf16
// or, with -D AMX, with matrix tiles.
//
//   forward   y [M, C] = bf16(x [M, J]) bf16(alpha w [C, J])^T
//                        + bf16(s [M, R]) bf16(scale u [R, C]) + addend + bias
//   backward  y [M, C] = bf16(x [M, J]) bf16(w [J, C]) + bf16(s) bf16(scale u) + addend
//   with column_scale and row groups: gemm_epilogue.clh
//   with fuse_shrink, before either        s [M, R] = a_scale bf16(x) bf16(a [R, J])^T
//
// Shapes  x [M, J], y and addend [M, C], s [M, R], u [R, C], bias [C]; w [C, J] or [J, C] by rows;
//         a [R, J], with J a multiple of 32 if the shrink is fused; s_copies
//         [column groups - 1][M, R]
// Types   w in any storage type (quant.clh), all else f32
// Work    as gemm_cpu: a work-group of one item owns panels_per_group panels of 32 columns and
//         tiles_per_group tiles of TILE_ROWS rows (12, or 32). It takes panels_at_once panels and
//         block_steps reduction steps at a time, converts that part of w to pairs once, and applies
//         it to all of its rows. Each tile of rows is converted to pairs once for the current
//         panels. Each group of columns computes its own s with its first panels: the first group
//         in s, the others in s_copies.
//         With row groups, the tiles of the low-rank term begin at the rows of the groups: those of
//         a group are further steps of its rows only, after all of J.
// Local   scratch: PANEL_STEPS / 2 rows [32] of pairs for the panels, then a tile of x
//         [TILE_ROWS][STAGE_STRIDE / 2]
// Cost    2 M C (J + R) flops, two multiplications a lane and instruction; the conversion of x to
//         pairs costs as much as half a panel, once for each set of panels
// Numerics  products of bf16 are exact in f32; sums as in vdpbf16ps or tdpbf16ps, in order; the
//         sums of a block of steps are then added to y. An odd J is padded with a zero.
//! clc: build on avx512_bf16: PANEL_STEPS=8960 BLOCK_STEPS=1280 STAGE_STRIDE=1312
//!     WEIGHT_TYPE={WEIGHT_F32,WEIGHT_F16,WEIGHT_BF16,WEIGHT_Q4_1,WEIGHT_Q6_K,WEIGHT_Q8_0}
//! clc: build on avx512_bf16: PANEL_STEPS=8960 BLOCK_STEPS=1280 STAGE_STRIDE=1312
//!     WEIGHT_TYPE={WEIGHT_F32,WEIGHT_BF16,WEIGHT_Q4_0,WEIGHT_Q4_1,WEIGHT_Q8_0} WEIGHT_PACKED
#include "gemm/cpu/gemm_bf16_unit_cpu.clh"
#include "gemm/cpu/gemm_bf16_shrink_cpu.clh"
#include "gemm/cpu/gemm_share_cpu.clh"
#include "quant/quant_block32.clh"
#include "gemm/cpu/gemm_packed_columns_cpu.clh"

#if !defined(PANEL_STEPS) || !defined(BLOCK_STEPS) || !defined(STAGE_STRIDE)
#error "PANEL_STEPS, BLOCK_STEPS and STAGE_STRIDE are required"
#endif
#include "gemm/cpu/gemm_bf16_expand_cpu.clh"

// y += the low-rank terms of rows m to m_end, which may have several adapters, in panels p0 to p1.
void add_row_groups(__global float* y, Epilogue epilogue, __global const float* s,
                    __global const float* u, __global const uint* row_groups, GemmProblem problem,
                    uint m, uint m_end, uint p0, uint p1, uint block_steps,
                    __local uint* scratch) {
  const uint C = problem.N, R = problem.R, panel_size = block_steps / 2 * TILE_COLUMNS;
  __local uint* stage = scratch + PANEL_STEPS / 2 * TILE_COLUMNS;
  for (uint group_end; m < m_end; m = group_end) {
    const uint adapter = row_adapter(row_groups, m);
    group_end = row_group_end(row_groups, m, m_end);
    const uint ranks = adapter == NO_ADAPTER ? 0 : row_ranks(row_groups, m, R);
    for (uint begin = 0; begin < ranks; begin += block_steps) {
      const uint end = min(ranks, begin + block_steps), pairs = (end - begin + 1) / 2;
      for (uint p = p0; p < p1; ++p) {
        __local uint* panel = scratch + (p - p0) * panel_size;
        expand_low_rank(panel, u + (size_t)adapter * R * C, ranks, p * TILE_COLUMNS, C, begin, end,
                        problem.scale);
        fill_panel(panel, pairs);
      }
      for (uint tile = m; tile < group_end; tile += TILE_ROWS) {
        const uint rows = min(group_end - tile, (uint)TILE_ROWS);
        stage_rows(stage, s + (size_t)tile * R + begin, R, rows, end - begin);
        fill_stage(stage, pairs);
        for (uint p = p0; p < p1; ++p) {
          const uint c0 = p * TILE_COLUMNS;
          const size_t corner = (size_t)tile * C + c0;
          make_tile(y + corner, epilogue_at(continued(epilogue, y), corner, c0), C, stage,
                    pad_pairs(pairs), scratch + (p - p0) * panel_size, rows,
                    min(C - c0, (uint)TILE_COLUMNS));
        }
      }
    }
  }
}

__attribute__((reqd_work_group_size(1, 1, 1))) __kernel void gemm_tiles(
    __global float* y, __global const float* x, __global const uchar* w,
    __global const float* addend, __global const float* bias, __global float* s,
    __global const float* u, __global const float* a, __global const float* column_scale,
    __global const uint* row_groups, __global float* s_copies, GemmProblem problem,
    GemmTilesShare share, __local uint* scratch) {
  const uint M = problem.M, C = problem.N, J = problem.K;
  const uint R = problem.has_row_groups ? 0 : problem.R;  // of all rows
  const Epilogue epilogue = epilogue_of(problem, addend, bias, column_scale);
  const uint backward = problem.backward, fuse_shrink = problem.fuse_shrink;
  const uint block_steps = share.block_steps;
  const uint panels = (C + TILE_COLUMNS - 1) / TILE_COLUMNS;
  const uint panel_begin = get_group_id(0) * share.panels_per_group;
  const uint panel_end = min(panels, panel_begin + share.panels_per_group);
  const uint m_begin = get_group_id(1) * share.tiles_per_group * TILE_ROWS;
  const uint m_end = min(M, m_begin + share.tiles_per_group * TILE_ROWS);
  const uint w_steps = J + J % 2;  // in pairs; the low-rank steps follow
  const uint panel_size = block_steps / 2 * TILE_COLUMNS;
  __local uint* stage = scratch + PANEL_STEPS / 2 * TILE_COLUMNS;
  if (fuse_shrink && get_group_id(0) > 0) s = s_copies + (get_group_id(0) - 1) * (size_t)M * R;
#ifdef AMX
  tiles_begin();
#endif
  for (uint p0 = panel_begin; p0 < panel_end; p0 += share.panels_at_once) {
    const uint p1 = min(panel_end, p0 + share.panels_at_once);
    for (uint begin = 0; begin < w_steps + R; begin += block_steps) {
      const uint end = min(w_steps + R, begin + block_steps);
      const uint w_end = clamp(w_steps, begin, end);
      const uint w_last = min(w_end, J);  // without the step that pads a pair
      const uint pairs = (end - begin + 1) / 2;
      for (uint p = p0; p < p1; ++p) {
        __local uint* panel = scratch + (p - p0) * panel_size;
        const uint c0 = p * TILE_COLUMNS;
        if (begin < w_last && backward) expand_backward(panel, w, c0, C, begin, w_last);
        if (begin < w_last && !backward) {
          expand_forward(panel, w, c0, C, J, begin, w_last, problem.alpha);
        }
        if (w_end < end) {
          expand_low_rank(panel + (w_end - begin) / 2 * TILE_COLUMNS, u, R, c0, C, w_end - w_steps,
                          end - w_steps, problem.scale);
        }
        fill_panel(panel, pairs);
      }
      for (uint m = m_begin; m < m_end; m += TILE_ROWS) {
        const uint rows = min(M - m, (uint)TILE_ROWS);
        if (begin < w_last) {
          stage_rows(stage, x + (size_t)m * J + begin, J, rows, w_last - begin);
        }
        if (fuse_shrink && p0 == panel_begin && begin < w_last) {
          add_shrink(s + (size_t)m * R, stage, a + begin, J, R, rows, w_last - begin, begin == 0,
                     problem.a_scale);
        }
        if (w_end < end) {
          stage_rows(stage + (w_end - begin) / 2, s + (size_t)m * R + (w_end - w_steps), R, rows,
                     end - w_end);
        }
        fill_stage(stage, pairs);
        for (uint p = p0; p < p1; ++p) {
          __local const uint* panel = scratch + (p - p0) * panel_size;
          const uint c0 = p * TILE_COLUMNS;
          const size_t corner = (size_t)m * C + c0;
          // Later blocks of steps continue from the sums that the first one has stored.
          const Epilogue e =
              epilogue_at(begin > 0 ? continued(epilogue, y) : epilogue, corner, c0);
          make_tile(y + corner, e, C, stage, pad_pairs(pairs), panel, rows,
                    min(C - c0, (uint)TILE_COLUMNS));
        }
      }
    }
    if (problem.has_row_groups) {
      add_row_groups(y, epilogue, s, u, row_groups, problem, m_begin, m_end, p0, p1, block_steps,
                     scratch);
    }
  }
#ifdef AMX
  tiles_end();
#endif
}
