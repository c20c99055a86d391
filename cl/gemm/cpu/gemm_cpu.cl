// gemm_cpu: products with a frozen weight on CPU devices, for 12 or more rows.
//
//   forward   y [M, C] = alpha x [M, J] w [C, J]^T + scale s [M, R] u [R, C] + addend + bias
//   backward  y [M, C] = x [M, J] w [J, C] + scale s u + addend
//   with column_scale and row groups: gemm_epilogue.clh
//
// Shapes  x [M, J], y and addend [M, C], s [M, R], u [R, C], bias [C]; w [C, J] or [J, C] by rows
// Types   w in any storage type (quant.clh), all else f32
// Work    a work-group of one item owns panels_per_group panels of 32 columns and tiles_per_group
//         tiles of 12 rows. It takes panels_at_once panels and block_steps reduction steps at a
//         time, expands that part of w once into scratch, and applies it to all of its rows. Tiles
//         read x in place or, at the edges and with always_stage (rows of x that would conflict in
//         the cache's sets), from a copy of their 12 rows.
// Local   scratch: PANEL_STEPS rows [32] for the panels, then a staged tile of x [12][STAGE_STRIDE]
// Tiles              32 columns
//              +-- panel 0 --+-- panel 1 --+ ...     J rows of w, then R rows of scale * u:
//            l |             |             |         the low-rank term is R more steps
//              +-------------+-------------+
//   12 rows    x, then s  *   ->  12 x 32 sums, in one to eight micro-tiles (tile_sums_cpu.clh)
//         With row groups, the tiles of the low-rank term begin at the rows of the groups: those of
//         a group are further steps of its rows only, after all of J.
// Cost    2 M C (J + R) flops; w is read once for each range of rows
// Numerics  f32 fma; the sums of a block of steps are computed in order, then added to y
//! clc: build on cpu: PANEL_STEPS=4480 BLOCK_STEPS=640 STAGE_STRIDE=656
//!     WEIGHT_TYPE={WEIGHT_F32,WEIGHT_F16,WEIGHT_BF16,WEIGHT_Q4_1,WEIGHT_Q6_K,WEIGHT_Q8_0}
//! clc: build on cpu: PANEL_STEPS=4480 BLOCK_STEPS=640 STAGE_STRIDE=656
//!     WEIGHT_TYPE={WEIGHT_F32,WEIGHT_BF16,WEIGHT_Q4_0,WEIGHT_Q4_1,WEIGHT_Q8_0} WEIGHT_PACKED
//! clc: build on cpu: PANEL_STEPS=4480 BLOCK_STEPS=640 STAGE_STRIDE=656 WEIGHT_TYPE=WEIGHT_F32
//!     VECTOR_FLOATS={8,4} VECTOR_REGISTERS={16,32}
#include "cpu_builtins.clh"
#include "gemm/cpu/gemm_share_cpu.clh"
#include "gemm/cpu/gemm_tile_cpu.clh"
#include "quant/quant_block32.clh"
#include "gemm/cpu/gemm_packed_columns_cpu.clh"
#include "gemm/cpu/gemm_expand_cpu.clh"

#if !defined(PANEL_STEPS) || !defined(BLOCK_STEPS) || !defined(STAGE_STRIDE)
#error "PANEL_STEPS, BLOCK_STEPS and STAGE_STRIDE are required"
#endif

// stage[i][l] = [x | s][m0 + i][begin + l]; rows past M that tiles read are zeros. The loops
// interleave the rows, so their cache misses overlap.
__attribute__((noinline)) void stage_rows(__local float* stage, __global const float* x,
                                          __global const float* s, uint m0, uint M, uint J, uint R,
                                          uint begin, uint end) {
  const uint rows = min(M - m0, (uint)TILE_ROWS);
  const uint x_end = clamp(J, begin, end);
  uint l = begin;
  for (; l + 16 <= x_end; l += 16) {
    for (uint i = 0; i < rows; ++i) {
      vstore16(vload16(0, x + (size_t)(m0 + i) * J + l), 0, stage + i * STAGE_STRIDE + l - begin);
    }
  }
  for (; l < end; ++l) {
    for (uint i = 0; i < rows; ++i) {
      const size_t m = m0 + i;
      stage[i * STAGE_STRIDE + l - begin] = l < J ? x[m * J + l] : s[m * R + (l - J)];
    }
  }
  for (uint i = rows; i % ROWS_READ != 0; ++i) {
    for (l = 0; l < end - begin; ++l) stage[i * STAGE_STRIDE + l] = 0.0f;
  }
}

// y += the low-rank terms of rows m to m_end, which may have several adapters, in panels p0 to p1.
void add_row_groups(__global float* y, Epilogue epilogue, __global const float* s,
                    __global const float* u, __global const uint* row_groups, GemmProblem problem,
                    uint m, uint m_end, uint p0, uint p1, uint block_steps,
                    __local float* scratch) {
  const uint C = problem.N, R = problem.R;
  const uint panel_size = block_steps * TILE_COLUMNS, part = block_steps * PANEL_COLUMNS;
  __local float* stage = scratch + PANEL_STEPS * TILE_COLUMNS;
  for (uint group_end; m < m_end; m = group_end) {
    const uint adapter = row_adapter(row_groups, m);
    group_end = row_group_end(row_groups, m, m_end);
    const uint ranks = adapter == NO_ADAPTER ? 0 : row_ranks(row_groups, m, R);
    for (uint begin = 0; begin < ranks; begin += block_steps) {
      const uint end = min(ranks, begin + block_steps);
      for (uint p = p0; p < p1; ++p) {
        expand_low_rank(scratch + (p - p0) * panel_size, u + (size_t)adapter * R * C, part,
                        p * TILE_COLUMNS, C, begin, end, problem.scale);
      }
      for (uint tile = m; tile < group_end; tile += TILE_ROWS) {
        stage_rows(stage, s, s, tile, group_end, 0, R, begin, end);
        for (uint p = p0; p < p1; ++p) {
          const uint c0 = p * TILE_COLUMNS;
          const size_t corner = (size_t)tile * C + c0;
          tile_staged(y + corner, epilogue_at(continued(epilogue, y), corner, c0), C, stage,
                      end - begin, scratch + (p - p0) * panel_size, part,
                      min(group_end - tile, (uint)TILE_ROWS), min(C - c0, (uint)TILE_COLUMNS));
        }
      }
    }
  }
}

__attribute__((reqd_work_group_size(1, 1, 1))) __kernel void gemm_tiles(
    __global float* y, __global const float* x, __global const uchar* w,
    __global const float* addend, __global const float* bias, __global const float* s,
    __global const float* u, __global const float* column_scale, __global const uint* row_groups,
    GemmProblem problem, GemmTilesShare share, __local float* scratch) {
  const uint M = problem.M, C = problem.N, J = problem.K;
  const uint R = problem.has_row_groups ? 0 : problem.R;  // of all rows
  const Epilogue epilogue = epilogue_of(problem, addend, bias, column_scale);
  const uint backward = problem.backward, block_steps = share.block_steps;
  const uint panels = (C + TILE_COLUMNS - 1) / TILE_COLUMNS;
  const uint panel_begin = get_group_id(0) * share.panels_per_group;
  const uint panel_end = min(panels, panel_begin + share.panels_per_group);
  const uint m_begin = get_group_id(1) * share.tiles_per_group * TILE_ROWS;
  const uint m_end = min(M, m_begin + share.tiles_per_group * TILE_ROWS);
  const uint panel_size = block_steps * TILE_COLUMNS, part = block_steps * PANEL_COLUMNS;
  __local float* stage = scratch + PANEL_STEPS * TILE_COLUMNS;
  for (uint p0 = panel_begin; p0 < panel_end; p0 += share.panels_at_once) {
    const uint p1 = min(panel_end, p0 + share.panels_at_once);
    for (uint begin = 0; begin < J + R; begin += block_steps) {
      const uint end = min(J + R, begin + block_steps);
      const uint w_end = clamp(J, begin, end);
      for (uint p = p0; p < p1; ++p) {
        __local float* panel = scratch + (p - p0) * panel_size;
        const uint c0 = p * TILE_COLUMNS;
        if (begin < w_end && backward) expand_backward(panel, w, part, c0, C, begin, w_end);
        if (begin < w_end && !backward) {
          expand_forward(panel, w, part, c0, C, J, begin, w_end, problem.alpha);
        }
        if (w_end < end) {
          expand_low_rank(panel + (w_end - begin) * PANEL_COLUMNS, u, part, c0, C, w_end - J,
                          end - J, problem.scale);
        }
      }
      for (uint m = m_begin; m < m_end; m += TILE_ROWS) {
        const uint rows = min(M - m, (uint)TILE_ROWS);
        const uint narrow = C <= 16;
        const uint full_columns = narrow || p1 * TILE_COLUMNS <= C;
        const uint in_place = rows == TILE_ROWS && full_columns && !share.always_stage;
        if (!in_place) stage_rows(stage, x, s, m, M, J, R, begin, end);
        for (uint p = p0; p < p1; ++p) {
          __local const float* panel = scratch + (p - p0) * panel_size;
          const uint c0 = p * TILE_COLUMNS;
          const size_t corner = (size_t)m * C + c0;
          // Later blocks of steps continue from the sums that the first one has stored.
          const Epilogue e =
              epilogue_at(begin > 0 ? continued(epilogue, y) : epilogue, corner, c0);
          __global const float* x_at = x + (size_t)m * J + begin;
          __global const float* s_at = s + (size_t)m * R + (end > w_end ? w_end - J : 0);
          if (in_place && narrow) {
            tile_narrow(y + corner, e, C, x_at, J, w_end - begin, s_at, R, end - w_end,
                        panel);
          } else if (in_place) {
            tile_in_place(y + corner, e, C, x_at, J, w_end - begin, s_at, R, end - w_end,
                          panel, part, TILE_COLUMNS);
          } else {
            tile_staged(y + corner, e, C, stage, end - begin, panel, part, rows,
                        min(C - c0, (uint)TILE_COLUMNS));
          }
        }
      }
    }
    if (problem.has_row_groups) {
      add_row_groups(y, epilogue, s, u, row_groups, problem, m_begin, m_end, p0, p1, block_steps,
                     scratch);
    }
  }
}
