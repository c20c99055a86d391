// embedding: y[t] = table[ids[t]], zeros if the id is outside of the table. -D SCALED: times factor.
//
// Shapes  y [T, D], ids [T], table [V, D]
// Types   y f32, ids i32, table in any storage type (quant.clh)
// Work    embedding: one work-item owns four elements of each of ROWS rows at a time, D along
//         dimension 0, so several reads are in flight; if D is a multiple of 4, plain types are
//         read, and y is written, in vectors of four. A negative id wraps to a large one.
//         LATER_PART: the table is rows `first` to first + V of a larger one; rows of y for other
//         ids keep their values. Without it they are set to zero.
//         embedding_rows (CPU devices): a work-group of one item owns rows_per_group rows of y.
// Local   none
// Cost    reads T rows of the table, writes 4 T D bytes
// Numerics  as the storage type
//! clc: build ROWS=4
//!     WEIGHT_TYPE={WEIGHT_F32,WEIGHT_F16,WEIGHT_BF16,WEIGHT_Q4_1,WEIGHT_Q6_K,WEIGHT_Q8_0}
//! clc: build ROWS=4 WEIGHT_TYPE={WEIGHT_F32,WEIGHT_BF16,WEIGHT_Q4_0,WEIGHT_Q4_1,WEIGHT_Q8_0}
//!     WEIGHT_PACKED
//! clc: build ROWS=4 WEIGHT_TYPE={WEIGHT_F32,WEIGHT_BF16,WEIGHT_Q6_K} LATER_PART
//! clc: build ROWS=4 WEIGHT_TYPE={WEIGHT_F32,WEIGHT_BF16,WEIGHT_Q8_0} SCALED
//! clc: budget on gfx90a registers<=96 spills<=6
#ifndef ROWS
#error "ROWS: of y, of a work-item of embedding"
#endif

#include "quant/quant_block32.clh"

#ifdef SCALED
#define FACTOR_ARGUMENT , float factor
#define SCALED_VALUE(w) ((w) * factor)
#else
#define FACTOR_ARGUMENT
#define SCALED_VALUE(w) (w)
#endif

#ifdef LATER_PART
#define FIRST_ARGUMENT , uint first
#define FIRST_ROW first
#define KEEPS_ROW(id) ((id) >= V)
#else
#define FIRST_ARGUMENT
#define FIRST_ROW 0
#define KEEPS_ROW(id) false
#endif

// Elements d to d + 3 of a row; d and the lengths of rows are multiples of 4.
float4 weights_at(__global const uchar* row, uint d) {
#if defined(WEIGHT_PACKED) || WEIGHT_BLOCK > 1 || WEIGHT_TYPE == WEIGHT_F16
  return (float4)(weight_at(row, d), weight_at(row, d + 1), weight_at(row, d + 2),
                  weight_at(row, d + 3));
#elif WEIGHT_TYPE == WEIGHT_F32
  return *(__global const float4*)((__global const float*)row + d);
#else
  const ushort4 bits = *(__global const ushort4*)((__global const ushort*)row + d);
  return as_float4(convert_uint4(bits) << 16);
#endif
}

__kernel void embedding(__global float* y, __global const int* ids, __global const uchar* table,
                        uint T, uint D, uint V FACTOR_ARGUMENT FIRST_ARGUMENT) {
  const uint d = 4 * get_global_id(0);
  if (d >= D) return;
  for (uint t0 = ROWS * get_global_id(1); t0 < T; t0 += ROWS * get_global_size(1)) {
    const uint rows = min((uint)ROWS, T - t0);
    uint id[ROWS];
    for (uint r = 0; r < ROWS; ++r) id[r] = r < rows ? (uint)ids[t0 + r] - FIRST_ROW : V;
    __global float* out = y + (size_t)t0 * D + d;
    if (D % 4 == 0) {
      float4 values[ROWS];
      for (uint r = 0; r < ROWS; ++r) {
        values[r] = id[r] < V ? weights_at(weight_row(table, id[r], D), d) : (float4)(0.0f);
      }
      for (uint r = 0; r < rows; ++r) {
        if (!KEEPS_ROW(id[r])) *(__global float4*)(out + (size_t)r * D) = SCALED_VALUE(values[r]);
      }
      continue;
    }
    for (uint r = 0; r < rows; ++r) {
      if (KEEPS_ROW(id[r])) continue;
      __global const uchar* row = weight_row(table, id[r] < V ? id[r] : 0, D);
      for (uint i = 0; i < min(4u, D - d); ++i) {
        out[(size_t)r * D + i] = id[r] < V ? SCALED_VALUE(weight_at(row, d + i)) : 0.0f;
      }
    }
  }
}

__attribute__((reqd_work_group_size(1, 1, 1))) __kernel void embedding_rows(
    __global float* y, __global const int* ids, __global const uchar* table, uint T, uint D,
    uint V FACTOR_ARGUMENT, uint rows_per_group) {
  const uint begin = get_group_id(0) * rows_per_group;
  const uint end = min(T, begin + rows_per_group);
  for (uint t = begin; t < end; ++t) {
    const uint id = (uint)ids[t];
    __global const uchar* row = weight_row(table, id < V ? id : 0, D);
    __global float* out = y + (size_t)t * D;
    uint d = 0;
    for (; d + 32 <= D && id < V; d += 32) {
      float16 lo, hi;
      weight_block32(row, d, &lo, &hi);
      vstore16(SCALED_VALUE(lo), 0, out + d);
      vstore16(SCALED_VALUE(hi), 1, out + d);
    }
    for (; d < D; ++d) out[d] = id < V ? SCALED_VALUE(weight_at(row, d)) : 0.0f;
  }
}
