// gemm_strips_cpu: forward products of 12 and more rows with a frozen weight of floats that lies in
// strips (quant_strips.clh): it is used as it lies, nothing is expanded.
//
//   y [M, N] = alpha x [M, K] w [N, K]^T + scale s [M, R] u [R, N] + start + bias
//
// Shapes  x [M, K], y and start [M, N], s [M, R], u [R, N], bias [N]; N a multiple of 16, K of 64
// Types   w f32 in strips; with -D BF16 bf16 in strips, x, s and scale * u rounded to bf16; else
//         f32. -D AMX besides: on matrix tiles, alpha = 1
// Work    a work-group of one item owns panels_per_group panels of 32 columns and rows_per_group
//         rows. It stages chunk_rows rows of x at a time, block_steps steps of them, and passes
//         every panel of w over them; RANK_STEPS steps of the low-rank term go along with each
//         block of steps.
// Local   scratch: a panel of u [RANK_STEPS][32], then rows of x and s [chunk_rows][STAGE_STRIDE],
//         the steps of s from BLOCK_STEPS on; two steps an element with BF16; with AMX in blocks
// Cost    2 M N (K + R) flops; w is read once for each chunk of rows, x for each column of groups
// Numerics  f32 fma or sums of vdpbf16ps in order; the sums of later blocks of steps are added to y
#ifdef AMX
#define TILE_ROWS 32
#endif
#include "tile_sums_cpu.clh"
#ifdef BF16
#include "bf16_pairs_cpu.clh"
#endif
#ifdef AMX
#include "gemm_strips_amx_tile_cpu.clh"
#else
#include "gemm_strips_tile_cpu.clh"
#endif

#if !defined(BLOCK_STEPS) || !defined(RANK_STEPS) || !defined(STAGE_STRIDE)
#error "BLOCK_STEPS, RANK_STEPS and STAGE_STRIDE are required"
#endif

// Elements of so many steps, filled up with zeros to as many as tiles read at once.
uint elements_of(uint steps) {
  const uint elements = (steps + STEPS_AN_ELEMENT - 1) / STEPS_AN_ELEMENT;
  return (elements + ELEMENTS_READ - 1) / ELEMENTS_READ * ELEMENTS_READ;
}

// Steps l and l + 1 of a row, or step l; zero past the last.
TILE_FUNCTION ELEMENT staged_element(__global const float* row, uint l, uint steps) {
  if (l >= steps) return 0;
#ifdef BF16
  float16 two = 0.0f;
  two.s0 = row[l];
  if (l + 1 < steps) two.s1 = row[l + 1];
  return pairs_of(two, two).s0;
#else
  return row[l];
#endif
}

// stage[i][l] = x[i][l] for `steps` steps of up to TILE_ROWS rows, zeros where tiles read more. The
// rows take turns, so that their cache misses overlap; more of them would miss in the first table
// of addresses (TLB).
TILE_FUNCTION void stage_some(__local ELEMENT* stage, __global const float* x, uint stride,
                              uint rows, uint steps) {
  uint l = 0;
  for (; l + 16 * STEPS_AN_ELEMENT <= steps; l += 16 * STEPS_AN_ELEMENT) {
    for (uint i = 0; i < rows; ++i) {
      __global const float* at = x + (size_t)i * stride + l;
#ifdef BF16
      const ELEMENT16 elements = pairs_of(vload16(0, at), vload16(1, at));
#else
      const ELEMENT16 elements = vload16(0, at);
#endif
      vstore16(elements, 0, stage + STAGE_AT(i, l / STEPS_AN_ELEMENT));
    }
  }
  for (; l < elements_of(steps) * STEPS_AN_ELEMENT; l += STEPS_AN_ELEMENT) {
    for (uint i = 0; i < rows; ++i) {
      stage[STAGE_AT(i, l / STEPS_AN_ELEMENT)] =
          staged_element(x + (size_t)i * stride, l, steps);
    }
  }
  for (uint i = rows; i % ROWS_READ != 0; ++i) {
    for (l = 0; l < elements_of(steps); ++l) stage[STAGE_AT(i, l)] = 0;
  }
}

void stage_rows(__local ELEMENT* stage, __global const float* x, uint stride, uint rows,
                uint steps) {
  for (uint i = 0; i < rows; i += TILE_ROWS) {
    stage_some(stage + i * STAGE_STRIDE, x + (size_t)i * stride, stride,
               min(rows - i, (uint)TILE_ROWS), steps);
  }
}

// values[c] = scale * u[r][c0 + c], zeros outside of u.
void low_rank_row(float* values, __global const float* u, uint r, uint R, uint c0, uint N,
                  float scale) {
  const uint columns = r < R ? min(N - c0, (uint)TILE_COLUMNS) : 0;
  __global const float* row = u + (size_t)min(r, R - 1) * N + c0;
  if (columns == TILE_COLUMNS) {
    vstore16(vload16(0, row) * scale, 0, values);
    vstore16(vload16(1, row) * scale, 1, values);
    return;
  }
  for (uint c = 0; c < TILE_COLUMNS; ++c) values[c] = c < columns ? scale * row[c] : 0.0f;
}

// panel[r][c] = scale * u[begin + r][c0 + c], with BF16 in pairs of r; zeros past u.
TILE_FUNCTION void expand_low_rank(__local ELEMENT* panel, __global const float* u, uint begin,
                                   uint end, uint R, uint c0, uint N, float scale) {
  const uint read_end = begin + elements_of(end - begin) * STEPS_AN_ELEMENT;
  for (uint r = begin; r < read_end; r += STEPS_AN_ELEMENT, panel += TILE_COLUMNS) {
    float values[TILE_COLUMNS];
    low_rank_row(values, u, r, R, c0, N, scale);
#ifdef BF16
    float next[TILE_COLUMNS];
    low_rank_row(next, u, r + 1, R, c0, N, scale);
    const uint16 evens = pairs_of(vload16(0, values), vload16(1, values));
    const uint16 odds = pairs_of(vload16(0, next), vload16(1, next));
    vstore16(interleaved(as_ushort16(evens.lo), as_ushort16(odds.lo)), 0, panel);
    vstore16(interleaved(as_ushort16(evens.hi), as_ushort16(odds.hi)), 1, panel);
#else
    vstore16(vload16(0, values), 0, panel);
    vstore16(vload16(1, values), 1, panel);
#endif
  }
}

__attribute__((reqd_work_group_size(1, 1, 1))) __kernel void gemm_strips(
    __global float* y, __global const float* x, __global const ELEMENT* w,
    __global const float* start, __global const float* bias, __global const float* s,
    __global const float* u, uint M, uint N, uint K, uint R, float alpha, float scale,
    uint has_start, uint has_bias, uint block_steps, uint panels_per_group, uint rows_per_group,
    uint chunk_rows, __local ELEMENT* scratch) {
  const uint panel_begin = get_group_id(0) * panels_per_group;
  const uint panel_end = min((N + TILE_COLUMNS - 1) / TILE_COLUMNS, panel_begin + panels_per_group);
  const uint m_begin = get_group_id(1) * rows_per_group;
  const uint m_end = min(M, m_begin + rows_per_group);
  const size_t strip_elements = (size_t)(K / STEPS_AN_ELEMENT) * 16;
  __local ELEMENT* stage = scratch + RANK_STEPS / STEPS_AN_ELEMENT * TILE_COLUMNS;
  __local ELEMENT* stage_s = stage + STAGE_AT(0, BLOCK_STEPS / STEPS_AN_ELEMENT);
#ifdef AMX
  tiles_begin();
#endif
  for (uint m0 = m_begin; m0 < m_end; m0 += chunk_rows) {
    const uint rows = min(m_end - m0, chunk_rows);
    uint r_end = 0;
    for (uint k = 0, r = 0; k < K || r < R; k += block_steps, r = r_end) {
      const uint steps = k < K ? min(K - k, block_steps) : 0;
      r_end = min(R, r + RANK_STEPS);
      stage_rows(stage, x + (size_t)m0 * K + k, K, rows, steps);
      stage_rows(stage_s, s + (size_t)m0 * R + r, R, rows, r_end - r);
      for (uint p = panel_begin; p < panel_end; ++p) {
        const uint c0 = p * TILE_COLUMNS;
        const uint columns = min(N - c0, (uint)TILE_COLUMNS);
        // A panel of one strip takes it twice and keeps the first sums.
        __global const ELEMENT* strips =
            w + 2 * p * strip_elements + (size_t)(k / STEPS_AN_ELEMENT) * 16;
        const size_t to_next = columns == TILE_COLUMNS ? strip_elements : 0;
        expand_low_rank(scratch, u, r, r_end, R, c0, N, scale);
        for (uint i = 0; i < rows;) {
          const size_t corner = (size_t)(m0 + i) * N + c0;
          // Later blocks of steps go on from what the first has stored.
          const int first = k == 0;
          __global const float* from = !first ? y + corner : has_start ? start + corner : 0;
          __global const float* add = first && has_bias ? bias + c0 : 0;
          i += make_tile(y + corner, from, add, N, stage + i * STAGE_STRIDE, strips, to_next,
                         elements_of(steps), alpha, stage_s + i * STAGE_STRIDE, scratch,
                         elements_of(r_end - r), rows - i, columns);
        }
      }
    }
  }
#ifdef AMX
  tiles_end();
#endif
}
