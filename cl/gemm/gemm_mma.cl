// gemm_mma: products of bf16 matrices on the tensor cores of NVIDIA GPUs since Ampere.
//
//   y [M, C] = x [M, J] w [C, J]^T + s [M, R] u [R, C] + addend + bias
//   with -D TRANSPOSED   y [M, C] = x [M, J] w [J, C] + s [M, R] u [R, C] + addend
// Shapes  rows of x, w, s and u are `strides` elements apart, in this order: multiples of 8, with
//         zeros past their columns; addend like y, bias [C]
// Types   x, w, s and u bf16; y and addend f32 or bf16 (-D Y_BF16), bias f32
// Work    a work-group of eight warps owns a tile of 128 x 128, a warp 64 x 32 of it. Items copy 32
//         steps of both operands ahead into a ring of three stages; 16-byte chunks are swizzled, so
//         eight rows of one column are in eight banks. Tiles are taken in rasterisation groups
//         (raster_groups.clh), so tiles in flight share x and w in the L2 cache.
// Local   48 KB
// Cost    2 M C (J + R) flops
// Numerics  products of bf16 are exact in f32; sums as the tensor core computes them
//! clc: build on mma:
//! clc: build on mma: Y_BF16
//! clc: build on mma: TRANSPOSED Y_BF16
#include "hopper/ampere.clh"
#include "bf16_values.clh"
#include "gemm/gemm_problem.clh"
#include "raster_groups.clh"

#define TILE 128
#define STEPS 32  // steps of a stage
#define RING 3
#define OPERAND_BYTES (TILE * STEPS * 2)
#define STAGE_BYTES (2 * OPERAND_BYTES)
#define INLINED __attribute__((always_inline))

#ifdef Y_BF16
#define Y ushort
#define OF_Y(y) float_of_bf16(y)
#define TO_Y(x) bf16_of(x)
#else
#define Y float
#define OF_Y(y) (y)
#define TO_Y(x) (x)
#endif

// A matrix of bf16 rows; elements outside of it read as zero.
typedef struct {
  __global const ushort* data;
  uint rows, columns, stride;
} Rows;

// The offset of a 16-byte chunk in a tile [128 rows][32 steps], and in one [32 steps][128 columns].
uint by_rows(uint row, uint chunk) { return row * 64 + ((chunk ^ (row / 2 & 3)) << 4); }
uint by_steps(uint step, uint chunk) { return step * 256 + ((chunk ^ (step & 7)) << 4); }

// Copies 8 elements of a row, from `column` on.
INLINED void copy_chunk(uint to, Rows m, uint row, uint column) {
  const bool is_read = row < m.rows && column < m.columns;
  cp_async(to, is_read ? m.data + (size_t)row * m.stride + column : m.data, is_read);
}
// Copies 128 rows from r0 on, 32 columns from k0 on; called by 256 items.
INLINED void copy_rows(uint to, Rows m, uint r0, uint k0, uint item) {
#pragma unroll
  for (uint i = item; i < TILE * 4; i += 256) {
    copy_chunk(to + by_rows(i / 4, i % 4), m, r0 + i / 4, k0 + i % 4 * 8);
  }
}
// Copies 32 rows from k0 on, which are steps, 128 columns from c0 on.
INLINED void copy_steps(uint to, Rows m, uint k0, uint c0, uint item) {
#pragma unroll
  for (uint i = item; i < STEPS * 16; i += 256) {
    copy_chunk(to + by_steps(i / 16, i % 16), m, k0 + i / 16, c0 + i % 16 * 8);
  }
}

// sums += 64 rows of x (from `row` on in the tile) times 32 columns of w (from `column` on).
INLINED void multiply_stage(float (*sums)[4][4], uint x, uint w, uint row, uint column, uint lane,
                            bool w_by_steps) {
#pragma unroll
  for (uint k = 0; k < STEPS / 16; ++k) {
    uint a[4][4], b[2][4];
#pragma unroll
    for (uint i = 0; i < 4; ++i) {
      ldmatrix_x4(a[i], x + by_rows(row + 16 * i + lane % 16, 2 * k + lane / 16));
    }
#pragma unroll
    for (uint j = 0; j < 2; ++j) {
      // Matrices: steps 0-7 and 8-15 of the first 8 columns, then of the next 8 columns.
      if (w_by_steps) {
        ldmatrix_x4_trans(b[j], w + by_steps(16 * k + lane % 16, column / 8 + 2 * j + lane / 16));
      } else {
        ldmatrix_x4(b[j], w + by_rows(column + 16 * j + lane / 16 * 8 + lane % 8,
                                      2 * k + lane / 8 % 2));
      }
    }
#pragma unroll
    for (uint i = 0; i < 4; ++i) {
#pragma unroll
      for (uint j = 0; j < 4; ++j) {
        mma_m16n8k16(sums[i][j], a[i], b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]);
      }
    }
  }
}

#ifdef TRANSPOSED
#define IS_TRANSPOSED 1
#else
#define IS_TRANSPOSED 0
#endif

// Copies the k-th stage's operands: of x and w, then of s and u.
INLINED void copy_stage(uint to, uint k, uint w_stages, Rows x, Rows w, Rows s, Rows u, uint m0,
                        uint c0, uint item) {
  if (k < w_stages) {
    copy_rows(to, x, m0, k * STEPS, item);
    if (IS_TRANSPOSED) {
      copy_steps(to + OPERAND_BYTES, w, k * STEPS, c0, item);
    } else {
      copy_rows(to + OPERAND_BYTES, w, c0, k * STEPS, item);
    }
  } else {
    copy_rows(to, s, m0, (k - w_stages) * STEPS, item);
    copy_steps(to + OPERAND_BYTES, u, (k - w_stages) * STEPS, c0, item);
  }
}

INLINED void store_two(__global Y* y, __global const Y* addend, __global const float* bias, uint c,
                       uint C, const float* sums) {
#pragma unroll
  for (uint i = 0; i < 2; ++i) {
    if (c + i >= C) return;
    float sum = sums[i];
    if (bias != 0) sum += bias[c + i];
    if (addend != 0) sum += OF_Y(addend[c + i]);
    y[c + i] = TO_Y(sum);
  }
}

__attribute__((reqd_work_group_size(256, 1, 1))) __kernel void gemm_mma(
    __global Y* y, __global const ushort* x_data, __global const ushort* w_data,
    __global const ushort* s_data, __global const ushort* u_data, __global const Y* addend,
    __global const float* bias, GemmProblem problem, uint4 strides, uint group_m) {
  const uint M = problem.M, C = problem.N, J = problem.K, R = problem.R;
  __local uchar ring[RING * STAGE_BYTES] __attribute__((aligned(1024)));
  const uint item = get_local_id(0), lane = item % 32, warp = item / 32;
  const uint row_tiles = (M + TILE - 1) / TILE, column_tiles = (C + TILE - 1) / TILE;
  const uint id = get_group_id(0);
  RASTER_TILE(id)
  const uint m0 = ROW_TILE * TILE, c0 = COLUMN_TILE * TILE;
  const Rows x = {x_data, M, J, strides.x}, s = {s_data, M, R, strides.z},
             u = {u_data, R, C, strides.w};
  const Rows w = {w_data, IS_TRANSPOSED ? J : C, IS_TRANSPOSED ? C : J, strides.y};
  const uint w_stages = (J + STEPS - 1) / STEPS, stages = w_stages + (R + STEPS - 1) / STEPS;
  const uint base = local_address(ring), row = warp / 4 * 64, column = warp % 4 * 32;
  float sums[4][4][4];
#pragma unroll
  for (uint i = 0; i < 64; ++i) sums[i / 16][i / 4 % 4][i % 4] = 0.0f;
  for (uint k = 0; k < RING - 1; ++k) {
    if (k < stages) copy_stage(base + k * STAGE_BYTES, k, w_stages, x, w, s, u, m0, c0, item);
    CP_ASYNC_COMMIT;
  }
  for (uint k = 0; k < stages; ++k) {
    CP_ASYNC_WAIT(1);              // this item's copies of the stage are complete,
    barrier(CLK_LOCAL_MEM_FENCE);  // and all items' are; all items are done with the previous stage
    const uint ahead = k + RING - 1;
    if (ahead < stages) {
      copy_stage(base + ahead % RING * STAGE_BYTES, ahead, w_stages, x, w, s, u, m0, c0, item);
    }
    CP_ASYNC_COMMIT;
    const uint at = base + k % RING * STAGE_BYTES;
    if (IS_TRANSPOSED || k >= w_stages) {
      multiply_stage(sums, at, at + OPERAND_BYTES, row, column, lane, true);
    } else {
      multiply_stage(sums, at, at + OPERAND_BYTES, row, column, lane, false);
    }
  }
#pragma unroll
  for (uint i = 0; i < 4; ++i) {
#pragma unroll
    for (uint side = 0; side < 2; ++side) {
      const uint m = m0 + row + 16 * i + 8 * side + lane / 4;
      if (m >= M) continue;
#pragma unroll
      for (uint j = 0; j < 4; ++j) {
        store_two(y + (size_t)m * C, problem.has_addend ? addend + (size_t)m * C : 0,
                  problem.has_bias ? bias : 0, c0 + column + 8 * j + 2 * (lane % 4), C,
                  sums[i][j] + 2 * side);
      }
    }
  }
}
