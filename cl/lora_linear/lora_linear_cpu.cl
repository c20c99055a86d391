// lora_linear_cpu: the gradients of an adapter's matrices on CPU devices.
//
//   out [R, K] += scale * s [T, R]^T x [T, K]
// Shapes  as in the formula
// Types   f32
// Work    a work-group of one item owns `columns` columns of out and walks over the T rows, 64 at a
//         time. It takes two vectors of columns after another and computes all R rows of out from
//         them, so x comes from memory once; meanwhile it prefetches these columns of the next 64
//         rows.
// Local   none
// Tiles      64 rows: s^T |8| x |32|  ->  8 x 32 sums in registers with AVX-512, 4 x 16 with AVX2;
//            one row of out and up to 16 columns at the edges
// Cost    2 T R K flops; x is read once
// Numerics  f32 fma over t in order, added to out every 64 rows: bitwise reproducible
//! clc: build on cpu: VECTOR_FLOATS={16,8,4} VECTOR_REGISTERS={16,32}
#include "prefetch_cpu.clh"
#include "vectors_cpu.clh"

#define ROWS_AT_ONCE 64
#define EDGE_COLUMNS 16

// Micro-tiles of so many rows of out that their sums fit the registers.
#if VECTOR_REGISTERS == 32
#define MICRO_RANKS 8
#else
#define MICRO_RANKS 4
#endif

#define RANK_SUMS(i) FLOATS lo##i = 0.0f, hi##i = 0.0f;
#define RANK_STEP(i)                   \
  {                                    \
    const FLOATS at = (FLOATS)(s[i]);  \
    lo##i = fma(at, x_lo, lo##i);      \
    hi##i = fma(at, x_hi, hi##i);      \
  }
#define RANK_ADD(i)                                                          \
  {                                                                          \
    __global float* row = out + (size_t)i * K;                               \
    store_vector(__global, row, fma((FLOATS)(scale), lo##i, load_vector(row))); \
    row += VECTOR_FLOATS;                                                    \
    store_vector(__global, row, fma((FLOATS)(scale), hi##i, load_vector(row))); \
  }

// The columns of a micro-tile in a row of x take one line, or with AVX-512 two.
#if VECTOR_FLOATS == 16
#define FETCH_COLUMNS(at) FETCH_NEAR(at); FETCH_NEAR((at) + VECTOR_FLOATS)
#else
#define FETCH_COLUMNS(at) FETCH_NEAR(at)
#endif

// out[i, c] += scale * sum over t of s[t, i] x[t, c] for a micro-tile. Prefetches what lies `ahead`
// elements after x.
#define DEFINE_MICRO_TILE(NAME, EACH)                                                             \
  __attribute__((noinline)) void NAME(__global float* out, __global const float* s,               \
                                      __global const float* x, uint rows, uint R, uint K,         \
                                      float scale, size_t ahead) {                                \
    EACH(RANK_SUMS)                                                                               \
    for (uint t = 0; t < rows; ++t, s += R, x += K) {                                             \
      const FLOATS x_lo = load_vector(x), x_hi = load_vector(x + VECTOR_FLOATS);                  \
      FETCH_COLUMNS(x + ahead);                                                                   \
      EACH(RANK_STEP)                                                                             \
    }                                                                                             \
    EACH(RANK_ADD)                                                                                \
  }
#if MICRO_RANKS == 8
DEFINE_MICRO_TILE(add_micro_tile, EACH_OF_8)
#endif
DEFINE_MICRO_TILE(add_micro_tile_4, EACH_OF_4)

// The same for one row of out and `columns` (1 to 16) columns.
__attribute__((noinline)) void add_edge(__global float* out, __global const float* s,
                                        __global const float* x, uint rows, uint R, uint K,
                                        float scale, uint columns) {
  float sums[EDGE_COLUMNS];
  for (uint c = 0; c < columns; ++c) sums[c] = 0.0f;
  for (uint t = 0; t < rows; ++t, s += R, x += K) {
    for (uint c = 0; c < columns; ++c) sums[c] = fma(*s, x[c], sums[c]);
  }
  for (uint c = 0; c < columns; ++c) out[c] += scale * sums[c];
}

// The same for `columns` columns, and for all R rows of out.
void add_columns(__global float* out, __global const float* s, __global const float* x, uint rows,
                 uint R, uint K, float scale, uint columns) {
  const size_t next_rows = (size_t)ROWS_AT_ONCE * K;
  uint r = 0;
  if (columns == MICRO_COLUMNS) {
#if MICRO_RANKS == 8
    for (; r + 8 <= R; r += 8) {
      add_micro_tile(out + (size_t)r * K, s + r, x, rows, R, K, scale, r == 0 ? next_rows : 0);
    }
#endif
    for (; r + 4 <= R; r += 4) {
      add_micro_tile_4(out + (size_t)r * K, s + r, x, rows, R, K, scale, r == 0 ? next_rows : 0);
    }
  }
  for (; r < R; ++r) {
    for (uint c = 0; c < columns; c += EDGE_COLUMNS) {
      add_edge(out + (size_t)r * K + c, s + r, x + c, rows, R, K, scale,
               min(columns - c, (uint)EDGE_COLUMNS));
    }
  }
}

__attribute__((reqd_work_group_size(1, 1, 1))) __kernel void lora_gradient(
    __global float* out, __global const float* s, __global const float* x, uint T, uint R, uint K,
    float scale, uint columns) {
  const uint begin = get_group_id(0) * columns, end = min(K, begin + columns);
  for (uint t = 0; t < T; t += ROWS_AT_ONCE) {
    const uint rows = min(T - t, (uint)ROWS_AT_ONCE);
    for (uint c = begin; c < end; c += MICRO_COLUMNS) {
      add_columns(out + c, s + (size_t)t * R, x + (size_t)t * K + c, rows, R, K, scale,
                  min(end - c, (uint)MICRO_COLUMNS));
    }
  }
}
