// gemm: products with a frozen weight, portable.
//
//   forward   y [M, C] = alpha x [M, J] w [C, J]^T + scale s [M, R] u [R, C] + addend + bias
//   backward  y [M, C] = x [M, J] w [J, C] + scale s u + addend
//
// Shapes  x [M, J], y and addend [M, C], s [M, R], u [R, C], bias [C]; w [C, J] or [J, C] by rows
// Types   w in any storage type (quant.clh); x f32, or bf16 with -D X_BF16; y and addend likewise
//         with -D Y_BF16; all else f32
// Work    gemm: a work-group of 16 x 16 items owns a tile of 64 x 64 elements of y, an item every
//         16th row and column of it (4 x 4)
// Local   gemm: 16 steps of the tile's rows and columns, 2 x 16 x 65 floats
// Tiles         64 columns: w, then scale * u
//            16 steps |####|
//   64 rows: x | s  =  y tile; steps run over J and then R
// Cost    2 M C (J + R) flops; x is read C / 64 times, w M / 64 times
// Numerics  f32 fma, steps in order; a bf16 y is rounded to nearest even at the end
//! clc: build TILE=64 SIDE=16 STEPS=16
//!     WEIGHT_TYPE={WEIGHT_F32,WEIGHT_F16,WEIGHT_BF16,WEIGHT_Q4_1,WEIGHT_Q6_K,WEIGHT_Q8_0}
//! clc: build TILE=64 SIDE=16 STEPS=16
//!     WEIGHT_TYPE={WEIGHT_F32,WEIGHT_BF16,WEIGHT_Q4_0,WEIGHT_Q4_1,WEIGHT_Q8_0} WEIGHT_PACKED
//! clc: build TILE=64 SIDE=16 STEPS=16 WEIGHT_TYPE=WEIGHT_BF16 X_BF16 Y_BF16
//! clc: budget on gfx90a registers<=64 spills=0
//! clc: grid ceil(C/TILE)*SIDE,ceil(M/TILE)*SIDE by SIDE,SIDE
//! clc: tune TILE={16,32,64,128} SIDE={8,16,32} STEPS={8,16,32}
//!     where TILE % SIDE == 0 && TILE <= 8 * SIDE && 8 * STEPS * (TILE + 1) <= 48 * 1024
#include "quant/quant.clh"
#include "x_elements.clh"

#if !defined(TILE) || !defined(STEPS) || !defined(SIDE)
#error "TILE, STEPS and SIDE are required"
#endif
#define PER_ITEM (TILE / SIDE)
#define ITEMS (SIDE * SIDE)
#define ROW_STRIDE (TILE + 1)
#ifdef Y_BF16
#define Y_TYPE ushort
#define OF_Y(value) float_of_bf16(value)
#define TO_Y(value) bf16_of(value)
#else
#define Y_TYPE float
#define OF_Y(value) (value)
#define TO_Y(value) (value)
#endif

__attribute__((reqd_work_group_size(SIDE, SIDE, 1))) __kernel void gemm(
    __global Y_TYPE* y, __global const X_TYPE* x, __global const uchar* w,
    __global const Y_TYPE* addend, __global const float* bias, __global const float* s,
    __global const float* u, uint M, uint C, uint J, uint R, float alpha, float scale,
    uint backward, uint has_addend, uint has_bias) {
  __local float left[STEPS * ROW_STRIDE];
  __local float right[STEPS * ROW_STRIDE];
  const uint column = get_local_id(0), row = get_local_id(1);
  const uint item = row * SIDE + column;
  const uint m0 = get_group_id(1) * TILE, c0 = get_group_id(0) * TILE;
  float sums[PER_ITEM][PER_ITEM];
  for (uint i = 0; i < PER_ITEM; ++i) {
    for (uint j = 0; j < PER_ITEM; ++j) sums[i][j] = 0.0f;
  }
  for (uint begin = 0; begin < J + R; begin += STEPS) {
    for (uint e = item; e < STEPS * TILE; e += ITEMS) {
      // Neighbouring items read neighbouring elements: along the steps, or along the columns if the
      // rows of w are the steps (backward).
      const uint l = begin + e % STEPS, m = m0 + e / STEPS;
      float value = 0.0f;
      if (m < M && l < J) value = OF_X(x[(size_t)m * J + l]);
      if (m < M && l >= J && l < J + R) value = s[(size_t)m * R + (l - J)];
      left[e % STEPS * ROW_STRIDE + e / STEPS] = value;
      const uint step = backward ? e / TILE : e % STEPS;
      const uint along = backward ? e % TILE : e / STEPS;
      const uint wl = begin + step, c = c0 + along;
      value = 0.0f;
      if (c < C && wl < J) {
        value = backward ? weight_at(weight_row(w, wl, C), c)
                         : alpha * weight_at(weight_row(w, c, J), wl);
      }
      if (c < C && wl >= J && wl < J + R) value = scale * u[(size_t)(wl - J) * C + c];
      right[step * ROW_STRIDE + along] = value;
    }
    barrier(CLK_LOCAL_MEM_FENCE);  // both tiles are complete
    for (uint l = 0; l < STEPS; ++l) {
      for (uint i = 0; i < PER_ITEM; ++i) {
        const float a = left[l * ROW_STRIDE + row + i * SIDE];
        for (uint j = 0; j < PER_ITEM; ++j) {
          sums[i][j] = fma(a, right[l * ROW_STRIDE + column + j * SIDE], sums[i][j]);
        }
      }
    }
    barrier(CLK_LOCAL_MEM_FENCE);  // all items have read the tiles, which the next steps overwrite
  }
  for (uint i = 0; i < PER_ITEM; ++i) {
    const uint m = m0 + row + i * SIDE;
    for (uint j = 0; j < PER_ITEM; ++j) {
      const uint c = c0 + column + j * SIDE;
      if (m >= M || c >= C) continue;
      const size_t at = (size_t)m * C + c;
      const float offset = has_bias ? bias[c] : 0.0f;
      y[at] = TO_Y(sums[i][j] + (has_addend ? OF_Y(addend[at]) : 0.0f) + offset);
    }
  }
}
