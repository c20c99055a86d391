// matrix_unit_check: every function of matrix_unit.clh, so that a driver's matrix unit is tested
// before the kernels over it, and tests can compare the emulation with loops on the host.
// Shapes: a, b [32, 8 chunks], rows from rows_read on count as zeros; for the sub-groups g = 0, 1
//   product [2, 16, 16]         rows 16 g to 16 g + 15 of a, times rows 16 (1 - g) on of b transposed
//   turned [2, chunks / 2, 16, 16]  16 columns of a from 16 n on, transposed, times 16 columns of b
//                               from 16 ((n + g) % (chunks / 2)) on
//   chained [2, 16, 16]         product, rounded to bf16, times b[16 g on][0 to 15]
//   stored [2, 16, 16]          product as store_row_bf16 stores it, 24 - 16 g columns
//   joined [2, 16, 16]          the first 24 - 16 g columns of product, plus those of a from row 16 g on;
//                               the others are zero
//   statistics [2, 16, 4, 2]    largest and sum of each row of product, in each lane that holds the
//                               row, repeated up to four
// Types: a, b, stored bf16; the others f32. chunks is 2, 4, 8 or 16
// Work: one work-group of two sub-groups
// Local: two tiles of 8 KiB
// Cost: some thousand flops
// Numerics: products of bf16, sums f32
//! clc: build on mma: MMA_SYNC
//! clc: build on mfma: MFMA
//! clc: build on wmma_gfx11: WMMA_GFX11
//! clc: build on wmma_gfx12: WMMA_GFX12
//! clc: build on xmx: XMX -cl-intel-256-GRF-per-thread
//! clc: budget spills=0
//! clc: budget on gfx90a registers<=64
//! clc: budget on gfx942 registers<=64
//! clc: budget on gfx1100 registers<=96
//! clc: budget on gfx1201 registers<=96
#include "matrix/matrix_unit.clh"

#define ROWS 32
#define MOST_CHUNKS 16
#define LANES_OF_A_ROW 4

void stage(LocalAt tile, __global const ushort* from, uint rows_read, uint chunks) {
  for (uint at = get_local_id(0); at < ROWS * chunks; at += 2 * LANES) {
    const bool is_read = at / chunks < rows_read;
    stage_chunk(tile + tile_at(at / chunks, at % chunks, chunks), from + (is_read ? at * 8 : 0),
                is_read);
  }
}

void store(MatrixUnit unit, __global float* to, const Sums* sums) {
  UNROLL for (uint i = 0; i < SUM_ROWS; ++i) {
    UNROLL for (uint j = 0; j < SUM_COLUMNS; ++j) {
      to[sum_row(unit, i) * 16 + sum_column(unit, j)] = sums->v[i][j];
    }
  }
}

void store_statistics(MatrixUnit unit, __global float* to, const Sums* sums) {
  UNROLL for (uint i = 0; i < SUM_ROWS; ++i) {
    float largest = -INFINITY, sum = 0.0f;
    UNROLL for (uint j = 0; j < SUM_COLUMNS; ++j) {
      largest = fmax(largest, sums->v[i][j]);
      sum += sums->v[i][j];
    }
    largest = row_max(unit, largest);
    sum = row_sum(unit, sum);
    const uint own = unit.lane / ROW_STEP % ROW_LANES;
    for (uint n = own; n < LANES_OF_A_ROW; n += ROW_LANES) {
      __global float* at = to + (sum_row(unit, i) * LANES_OF_A_ROW + n) * 2;
      at[0] = largest;
      at[1] = sum;
    }
  }
}

void join_rows(MatrixUnit unit, __global ushort* stored, __global float* joined,
               __global const float* product, __global const ushort* a, uint row_elements,
               uint columns, const Sums* sums) {
  UNROLL for (uint i = 0; i < SUM_ROWS; ++i) {
    const uint row = sum_row(unit, i);
    float v[SUM_COLUMNS], of_a[SUM_COLUMNS];
    store_row_bf16(unit, stored + 16 * row, sums->v[i], columns);
    load_row_f32(unit, v, product + 16 * row, columns);
    load_row_bf16(unit, of_a, a + (size_t)row * row_elements, columns);
    UNROLL for (uint j = 0; j < SUM_COLUMNS; ++j) v[j] += of_a[j];
    store_row_f32(unit, joined + 16 * row, v, 16 + 8);
  }
}

SUBGROUP_OF_LANES __attribute__((reqd_work_group_size(2 * LANES, 1, 1))) __kernel void
matrix_unit_products(__global float* product, __global float* turned, __global float* chained,
                     __global ushort* stored, __global float* joined, __global float* statistics,
                     __global const ushort* a, __global const ushort* b, uint chunks,
                     uint rows_read) {
  __local uint4 a_tile[ROWS * MOST_CHUNKS] __attribute__((aligned(1024)));
  __local uint4 b_tile[ROWS * MOST_CHUNKS] __attribute__((aligned(1024)));
  MATRIX_UNIT(unit, 2);
  const uint g = get_local_id(0) / LANES, blocks = chunks / 2;
  stage(local_at(a_tile), a, rows_read, chunks);
  STAGE_COMMIT;
  stage(local_at(b_tile), b, rows_read, chunks);
  STAGE_COMMIT;
  STAGE_WAIT(0);
  barrier(CLK_LOCAL_MEM_FENCE);  // both tiles have arrived
  Left left;
  Right right;
  Sums sums = {0};
  for (uint k = 0; k < 16 * blocks; k += 16) {
    load_left(unit, &left, local_at(a_tile), 16 * g, k, chunks);
    load_right(unit, &right, local_at(b_tile), k, 16 * (1 - g), chunks);
    multiply(unit, &sums, &left, &right);
  }
  store(unit, product + g * 256, &sums);
  store_statistics(unit, statistics + g * 16 * LANES_OF_A_ROW * 2, &sums);
  join_rows(unit, stored + g * 256, joined + g * 256, product + g * 256, a + g * 128 * chunks,
            8 * chunks, 24 - 16 * g, &sums);
  left_of_sums(unit, &left, &sums);
  load_right_transposed(unit, &right, local_at(b_tile), 16 * g, 0, chunks);
  Sums of_rounded = {0};
  multiply(unit, &of_rounded, &left, &right);
  store(unit, chained + g * 256, &of_rounded);
  for (uint n = 0; n < blocks; ++n) {
    Sums of_turned = {0};
    for (uint k = 0; k < ROWS; k += 16) {
      load_left_transposed(unit, &left, local_at(a_tile), 16 * n, k, chunks);
      load_right_transposed(unit, &right, local_at(b_tile), k, (n + g) % blocks * 16, chunks);
      multiply(unit, &of_turned, &left, &right);
    }
    store(unit, turned + (g * blocks + n) * 256, &of_turned);
  }
}
