// grouped_gemm_bf16_cpu: grouped_gemm_cpu's products with both operands rounded to bf16, on CPUs
// with avx512_bf16 or, with -D AMX, with matrix tiles.
//
//   forward   y [S, N] (+)= bf16(x [rows, K]) bf16(alpha w_e [N, K])^T
//                           + bf16(s [S, R]) bf16(scale u_e [R, N])
//   backward  y [S, N] (+)= bf16(x [rows, K]) bf16(w_e [K, N]) + the same
//
// Shapes  those of grouped_gemm.cl; counts, begins and active as in router.cl
// Types   w in any storage type (quant.clh), all else f32
// Work    as grouped_gemm_cpu.cl, with panels and tiles of bf16 pairs as in gemm_bf16_cpu.cl
// Local   scratch: PANEL_STEPS / 2 rows [32] of pairs for the panels, then a tile of x
//         [TILE_ROWS][STAGE_STRIDE / 2]
// Cost    2 S N (K + R) flops; w of an expert that has entries is read once, others are not
// Numerics  those of gemm_bf16_cpu.cl; an odd K is padded with a zero
//! clc: build on avx512_bf16: PANEL_STEPS=8960 STAGE_STRIDE=1312
//!     WEIGHT_TYPE={WEIGHT_F32,WEIGHT_F16,WEIGHT_BF16,WEIGHT_Q4_1,WEIGHT_Q6_K,WEIGHT_Q8_0}
//! clc: build on avx512_bf16: PANEL_STEPS=8960 STAGE_STRIDE=1312
//!     WEIGHT_TYPE={WEIGHT_F32,WEIGHT_BF16,WEIGHT_Q4_0,WEIGHT_Q4_1,WEIGHT_Q8_0} WEIGHT_PACKED
#include "gemm/cpu/gemm_bf16_unit_cpu.clh"
#include "quant/quant_block32.clh"
#include "gemm/cpu/gemm_packed_columns_cpu.clh"
#include "gemm/cpu/gemm_bf16_expand_cpu.clh"
#include "experts/expert_operands_cpu.clh"

#if !defined(PANEL_STEPS) || !defined(STAGE_STRIDE)
#error "PANEL_STEPS and STAGE_STRIDE are required"
#endif

// A block of reduction steps: those of w, padded to pairs, and then of the low-rank term.
typedef struct {
  uint begin, end;  // of all
  uint w_end;       // of those of w
  uint w_last;      // of these without the step that pads a pair
} Steps;

Steps steps_of(GroupedProblem p, uint R, uint begin, uint block_steps) {
  const uint w_steps = p.K + p.K % 2, end = min(w_steps + R, begin + block_steps);
  const uint w_end = clamp(w_steps, begin, end);
  const Steps steps = {begin, end, w_end, min(w_end, p.K)};
  return steps;
}

uint pairs_of_steps(Steps steps) { return (steps.end - steps.begin + 1) / 2; }

// out[l / 2] = x[l] for `steps` steps; the last pair of an odd number is padded with a zero.
BF16_TARGET void stage_row(__local uint* out, __global const float* x, uint steps) {
  uint l = 0;
  for (; l + 32 <= steps; l += 32) {
    store_words(__local, out + l / 2, pairs_of(vload16(0, x + l), vload16(1, x + l)));
  }
  for (; l < steps; l += 2) {
    float16 two = 0.0f;
    two.s0 = x[l];
    if (l + 1 < steps) two.s1 = x[l + 1];
    out[l / 2] = pairs_of(two, two).s0;
  }
}

// stage[i] = the steps of [x | s] of slot m + i; rows after m_end that tiles read are zeros.
__attribute__((noinline)) void stage_slots(__local uint* stage, ExpertOperands of,
                                           GroupedProblem p, uint m, uint m_end, Steps steps) {
  const uint rows = min(m_end - m, (uint)TILE_ROWS), pairs = pairs_of_steps(steps);
  for (uint i = 0; i < rows; ++i) {
    __local uint* out = stage + i * STAGE_PAIRS;
    if (steps.begin < steps.w_last) {
      stage_row(out, x_row(of, p, m + i) + steps.begin, steps.w_last - steps.begin);
    }
    if (steps.w_end < steps.end) {
      const uint first = steps.w_end - (p.K + p.K % 2);
      stage_row(out + (steps.w_end - steps.begin) / 2, of.s + (size_t)(m + i) * p.R + first,
                steps.end - steps.w_end);
    }
  }
  for (uint i = rows; i % ROWS_READ != 0; ++i) {
    for (uint l = 0; l < pairs; ++l) stage[i * STAGE_PAIRS + l] = 0;
  }
  fill_stage(stage, pairs);
}

// Expands the steps of panel `number` of the expert.
void expand_steps(__local uint* panel, ExpertOperands of, GroupedProblem p, uint number,
                  Steps steps) {
  const uint c0 = number * TILE_COLUMNS, w_steps = p.K + p.K % 2;
  if (steps.begin < steps.w_last && p.backward) {
    expand_backward(panel, of.w, c0, p.N, steps.begin, steps.w_last);
  } else if (steps.begin < steps.w_last) {
    expand_forward(panel, of.w, c0, p.N, p.K, steps.begin, steps.w_last, p.alpha);
  }
  if (steps.w_end < steps.end) {
    expand_low_rank(panel + (steps.w_end - steps.begin) / 2 * TILE_COLUMNS, of.u, p.R, c0, p.N,
                    steps.w_end - w_steps, steps.end - w_steps, p.scale);
  }
  fill_panel(panel, pairs_of_steps(steps));
}

// y of slots m_begin to m_end and panels p0 to p1, which are expanded at once.
void multiply_panels(__global float* y, ExpertOperands of, GroupedProblem p, GroupedShare share,
                     uint m_begin, uint m_end, uint p0, uint p1, __local uint* scratch) {
  const uint panel_size = share.block_steps / 2 * TILE_COLUMNS;
  __local uint* stage = scratch + PANEL_STEPS / 2 * TILE_COLUMNS;
  for (uint begin = 0; begin < p.K + p.K % 2 + of.R; begin += share.block_steps) {
    const Steps steps = steps_of(p, of.R, begin, share.block_steps);
    for (uint number = p0; number < p1; ++number) {
      expand_steps(scratch + (number - p0) * panel_size, of, p, number, steps);
    }
    for (uint m = m_begin; m < m_end; m += TILE_ROWS) {
      stage_slots(stage, of, p, m, m_end, steps);
      for (uint number = p0; number < p1; ++number) {
        const uint c0 = number * TILE_COLUMNS;
        const size_t corner = (size_t)m * p.N + c0;
        const Epilogue e = {begin > 0 || p.accumulate ? y + corner : 0, 0, 0};
        make_tile(y + corner, e, p.N, stage, pad_pairs(pairs_of_steps(steps)),
                  scratch + (number - p0) * panel_size, min(m_end - m, (uint)TILE_ROWS),
                  min(p.N - c0, (uint)TILE_COLUMNS));
      }
    }
  }
}

#define SCRATCH uint
#include "experts/grouped_panels_cpu.clh"
