// grouped_gemm_cpu: products of rows with the weights of their experts, for CPUs.
//
//   forward   y [S, N] (+)= alpha x [rows, K] w_e [N, K]^T + scale s [S, R] u_e [R, N]
//   backward  y [S, N] (+)= alpha x [rows, K] w_e [K, N] + the same
//
// Shapes  those of grouped_gemm.cl; counts, begins and active as in router.cl
// Types   w in any storage type (quant.clh), all else f32
// Work    a work-group of one item owns panels_per_group panels of 32 columns of one expert that has
//         entries (router.cl), and all of its rows. It expands panels_at_once panels and block_steps
//         reduction steps of w at a time into scratch and applies them to tiles of 12 rows, as
//         gemm_cpu.cl does. The last groups write the zeros of the slots after those of all experts.
// Local   scratch: PANEL_STEPS rows [32] for the panels, then a staged tile of x [12][STAGE_STRIDE]
// Cost    2 S N (K + R) flops; w of an expert that has entries is read once, others are not
// Numerics  f32 fma; the sums of a block of steps are computed in order, then added to y
//! clc: build on cpu: PANEL_STEPS=4480 BLOCK_STEPS=640 STAGE_STRIDE=656
//!     WEIGHT_TYPE={WEIGHT_F32,WEIGHT_F16,WEIGHT_BF16,WEIGHT_Q4_1,WEIGHT_Q6_K,WEIGHT_Q8_0}
//! clc: build on cpu: PANEL_STEPS=4480 BLOCK_STEPS=640 STAGE_STRIDE=656
//!     WEIGHT_TYPE={WEIGHT_F32,WEIGHT_BF16,WEIGHT_Q4_0,WEIGHT_Q4_1,WEIGHT_Q8_0} WEIGHT_PACKED
#include "cpu_builtins.clh"
#include "gemm/cpu/gemm_tile_cpu.clh"
#include "quant/quant_block32.clh"
#include "gemm/cpu/gemm_packed_columns_cpu.clh"
#include "gemm/cpu/gemm_expand_cpu.clh"
#include "experts/expert_operands_cpu.clh"

#if !defined(PANEL_STEPS) || !defined(STAGE_STRIDE)
#error "PANEL_STEPS and STAGE_STRIDE are required"
#endif

// stage[i][l] = [x | s] of slot m + i at step begin + l; rows after m_end that tiles read are zeros.
__attribute__((noinline)) void stage_slots(__local float* stage, ExpertOperands of,
                                           GroupedProblem p, uint m, uint m_end, uint begin,
                                           uint end) {
  const uint rows = min(m_end - m, (uint)TILE_ROWS), x_end = clamp(p.K, begin, end);
  for (uint i = 0; i < rows; ++i) {
    __global const float* x = x_row(of, p, m + i);
    __local float* out = stage + i * STAGE_STRIDE;
    uint l = begin;
    for (; l + 16 <= x_end; l += 16) vstore16(vload16(0, x + l), 0, out + l - begin);
    for (; l < x_end; ++l) out[l - begin] = x[l];
    __global const float* s = of.s + (size_t)(m + i) * p.R;
    for (; l < end; ++l) out[l - begin] = s[l - p.K];
  }
  for (uint i = rows; i % ROWS_READ != 0; ++i) {
    for (uint l = 0; l < end - begin; ++l) stage[i * STAGE_STRIDE + l] = 0.0f;
  }
}

// Expands steps begin to end of panel `number` of the expert.
void expand_steps(__local float* panel, ExpertOperands of, GroupedProblem p, uint part, uint number,
                  uint begin, uint end) {
  const uint c0 = number * TILE_COLUMNS, w_end = clamp(p.K, begin, end);
  if (begin < w_end && p.backward) {
    expand_backward(panel, of.w, part, c0, p.N, begin, w_end);
  } else if (begin < w_end) {
    expand_forward(panel, of.w, part, c0, p.N, p.K, begin, w_end, p.alpha);
  }
  if (w_end < end) {
    expand_low_rank(panel + (w_end - begin) * PANEL_COLUMNS, of.u, part, c0, p.N, w_end - p.K,
                    end - p.K, p.scale);
  }
}

// y of slots m_begin to m_end and panels p0 to p1, which are expanded at once.
void multiply_panels(__global float* y, ExpertOperands of, GroupedProblem p, GroupedShare share,
                     uint m_begin, uint m_end, uint p0, uint p1, __local float* scratch) {
  const uint panel_size = share.block_steps * TILE_COLUMNS;
  const uint part = share.block_steps * PANEL_COLUMNS, steps = p.K + of.R;
  __local float* stage = scratch + PANEL_STEPS * TILE_COLUMNS;
  for (uint begin = 0; begin < steps; begin += share.block_steps) {
    const uint end = min(steps, begin + share.block_steps);
    for (uint number = p0; number < p1; ++number) {
      expand_steps(scratch + (number - p0) * panel_size, of, p, part, number, begin, end);
    }
    for (uint m = m_begin; m < m_end; m += TILE_ROWS) {
      stage_slots(stage, of, p, m, m_end, begin, end);
      for (uint number = p0; number < p1; ++number) {
        const uint c0 = number * TILE_COLUMNS;
        const size_t corner = (size_t)m * p.N + c0;
        const Epilogue e = {begin > 0 || p.accumulate ? y + corner : 0, 0, 0};
        tile_staged(y + corner, e, p.N, stage, end - begin, scratch + (number - p0) * panel_size,
                    part, min(m_end - m, (uint)TILE_ROWS), min(p.N - c0, (uint)TILE_COLUMNS));
      }
    }
  }
}

#define SCRATCH float
#include "experts/grouped_panels_cpu.clh"
