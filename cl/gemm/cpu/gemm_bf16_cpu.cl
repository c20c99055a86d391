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
#ifdef AMX
#define TILE_ROWS 32
#endif
#include "bf16_pairs_cpu.clh"
#include "cpu_builtins.clh"
#include "gemm/cpu/tile_sums_cpu.clh"
#ifdef AMX
#include "gemm/cpu/gemm_amx_tile_cpu.clh"
#else
#include "gemm/cpu/gemm_bf16_tile_cpu.clh"
#endif
#include "gemm/cpu/gemm_bf16_shrink_cpu.clh"
#include "gemm/cpu/gemm_share_cpu.clh"
#include "quant/quant_block32.clh"
#include "gemm/cpu/gemm_packed_columns_cpu.clh"
#include "transpose16.clh"

#if !defined(PANEL_STEPS) || !defined(BLOCK_STEPS) || !defined(STAGE_STRIDE)
#error "PANEL_STEPS, BLOCK_STEPS and STAGE_STRIDE are required"
#endif

// The number of pairs rounded up to what a tile reads; the excess is padded with zeros.
uint pad_pairs(uint pairs) { return (pairs + PAIRS_AT_ONCE - 1) / PAIRS_AT_ONCE * PAIRS_AT_ONCE; }

void fill_panel(__local uint* panel, uint pairs) {
  for (uint i = pairs * TILE_COLUMNS; i < pad_pairs(pairs) * TILE_COLUMNS; ++i) panel[i] = 0;
}

void fill_stage(__local uint* stage, uint pairs) {
  for (uint i = 0; i < TILE_ROWS; ++i) {
    for (uint l = pairs; l < pad_pairs(pairs); ++l) stage[i * STAGE_PAIRS + l] = 0;
  }
}

#ifdef WEIGHT_PACKED
// 16 pairs (even[i], odd[i]).
#define STORE_PAIRS(out, even, odd)                                                      \
  {                                                                                      \
    const uint16 both = pairs_of(even, odd);                                             \
    store_words(__local, out, interleaved(as_ushort16(both.lo), as_ushort16(both.hi)));  \
  }

// panel[e / 2][c] = the elements of a packed panel's 16 rows; `out` points into the first row.
__attribute__((always_inline)) void expand_packed(__local uint* out, PackedBlock block) {
  for (uint j = 0; j < 4; ++j, out += 2 * TILE_COLUMNS) {
    const PackedEight eight = packed_eight(block, j);
    STORE_PAIRS(out, eight.lo0, eight.lo1)
    STORE_PAIRS(out + TILE_COLUMNS, eight.lo2, eight.lo3)
    STORE_PAIRS(out + 8 * TILE_COLUMNS, eight.hi0, eight.hi1)
    STORE_PAIRS(out + 9 * TILE_COLUMNS, eight.hi2, eight.hi3)
  }
}
#endif

// panel[l / 2][c] = alpha * w[c0 + c][begin + l], for full blocks of 32 steps; zeros outside of w.
BF16_TARGET void expand_forward(__local uint* panel, __global const uchar* w, uint c0, uint C,
                                uint J, uint begin, uint end, float alpha) {
  for (uint l = begin; l < end; l += 32) {
    __local uint* out = panel + (l - begin) / 2 * TILE_COLUMNS;
    for (uint half_panel = 0; half_panel < TILE_COLUMNS; half_panel += 16) {
#ifdef WEIGHT_PACKED
      expand_packed(out + half_panel, columns_block(w, c0, half_panel, C, J, l, alpha));
#else
      float16 pairs[16];
      for (uint i = 0; i < 16; ++i) {
        const uint c = c0 + half_panel + i;
        float16 first = 0.0f, second = 0.0f;
        if (c < C) weight_block32_guarded(weight_row(w, c, J), l, J, &first, &second);
        pairs[i] = as_float16(pairs_of(first * alpha, second * alpha));
      }
      transpose16(pairs, (__local float*)(out + half_panel), TILE_COLUMNS);
#endif
    }
  }
}

// One row of pairs from two rows of 32 floats.
BF16_TARGET void store_interleaved(__local uint* out, float16 even_lo, float16 even_hi,
                                   float16 odd_lo, float16 odd_hi) {
  const uint16 even = pairs_of(even_lo, even_hi), odd = pairs_of(odd_lo, odd_hi);
  vstore16(interleaved(as_ushort16(even.lo), as_ushort16(odd.lo)), 0, out);
  vstore16(interleaved(as_ushort16(even.hi), as_ushort16(odd.hi)), 1, out);
}

// panel[l / 2][c] = w[begin + l][c0 + c]; zeros outside of w and, for an odd number of rows, in the
// last pairs.
BF16_TARGET void expand_backward(__local uint* panel, __global const uchar* w, uint c0, uint C,
                                 uint begin, uint end) {
#ifdef WEIGHT_PACKED
  for (uint l = begin; l < end; l += PACKED_ROWS) {
    fetch_packed_block(weight_row(w, l + STEPS_AHEAD, C), c0);
    const PackedBlock block = packed_block(weight_row(w, l, C), c0, 1.0f);
    float16 pairs[16];
    for (uint j = 0; j < 4; ++j) {
      const PackedEight eight = packed_eight(block, j);
      pairs[4 * j] = as_float16(pairs_of(eight.lo0, eight.hi0));
      pairs[4 * j + 1] = as_float16(pairs_of(eight.lo1, eight.hi1));
      pairs[4 * j + 2] = as_float16(pairs_of(eight.lo2, eight.hi2));
      pairs[4 * j + 3] = as_float16(pairs_of(eight.lo3, eight.hi3));
    }
    // Lanes 0 to 7 of pairs[e] are 8 pairs of rows of column e, lanes 8 to 15 of column e + 16.
    __local float* out = (__local float*)panel;
    transpose16_halves(pairs, out, out + 16, TILE_COLUMNS);
    panel += PACKED_ROWS / 2 * TILE_COLUMNS;
  }
#else
  for (uint l = begin; l < end; l += 2) {
    float16 even_lo, even_hi, odd_lo = 0.0f, odd_hi = 0.0f;
    weight_block32_guarded(weight_row(w, l, C), c0, C, &even_lo, &even_hi);
    if (l + 1 < end) weight_block32_guarded(weight_row(w, l + 1, C), c0, C, &odd_lo, &odd_hi);
    store_interleaved(panel, even_lo, even_hi, odd_lo, odd_hi);
    panel += TILE_COLUMNS;
  }
#endif
}

// row[c] = scale * u[r][c0 + c], zeros outside of u.
void low_rank_row(float* row, __global const float* u, uint r, uint R, uint c0, uint C,
                  float scale) {
  for (uint c = 0; c < TILE_COLUMNS; ++c) {
    row[c] = r < R && c0 + c < C ? scale * u[(size_t)r * C + c0 + c] : 0.0f;
  }
}

// panel[r / 2][c] = scale * u[begin + r][c0 + c], zeros outside of u.
BF16_TARGET void expand_low_rank(__local uint* panel, __global const float* u, uint R, uint c0,
                                 uint C, uint begin, uint end, float scale) {
  for (uint r = begin; r < end; r += 2) {
    float even[TILE_COLUMNS], odd[TILE_COLUMNS];
    low_rank_row(even, u, r, R, c0, C, scale);
    low_rank_row(odd, u, r + 1, R, c0, C, scale);
    store_interleaved(panel, vload16(0, even), vload16(1, even), vload16(0, odd),
                      vload16(1, odd));
    panel += TILE_COLUMNS;
  }
}

// stage[i][l / 2] = x[i][l] for `steps` steps of the tile's rows; the last pair of an odd number is
// padded with a zero, and rows past `rows` that tiles read are zeros. The loop interleaves the
// rows, so their cache misses overlap.
BF16_TARGET void stage_rows(__local uint* stage, __global const float* x, uint stride, uint rows,
                            uint steps) {
  uint l = 0;
  for (; l + 32 <= steps; l += 32) {
    for (uint i = 0; i < rows; ++i) {
      __global const float* at = x + (size_t)i * stride + l;
      store_words(__local, stage + i * STAGE_PAIRS + l / 2,
                  pairs_of(vload16(0, at), vload16(1, at)));
    }
  }
  for (; l < steps; l += 2) {
    for (uint i = 0; i < rows; ++i) {
      __global const float* at = x + (size_t)i * stride + l;
      float16 two = 0.0f;
      two.s0 = at[0];
      if (l + 1 < steps) two.s1 = at[1];
      stage[i * STAGE_PAIRS + l / 2] = pairs_of(two, two).s0;
    }
  }
  for (uint i = rows; i % ROWS_READ != 0; ++i) {
    for (l = 0; l < steps; l += 2) stage[i * STAGE_PAIRS + l / 2] = 0;
  }
}

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
    for (uint begin = 0; begin < R && adapter != NO_ADAPTER; begin += block_steps) {
      const uint end = min(R, begin + block_steps), pairs = (end - begin + 1) / 2;
      for (uint p = p0; p < p1; ++p) {
        __local uint* panel = scratch + (p - p0) * panel_size;
        expand_low_rank(panel, u + (size_t)adapter * R * C, R, p * TILE_COLUMNS, C, begin, end,
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
