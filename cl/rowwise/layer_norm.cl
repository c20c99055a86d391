// layer_norm, portable, over the last dimension: y = n w + bias, n = (x - mean(x)) r,
// r = 1 / sqrt(var(x) + epsilon).
// backward: dx = residual + r (g - mean(g) - n mean(g n)), g = dy w.
// Shapes: x, y, dy, dx, residual [rows, width]; w, bias [width]
// Types: x, y, dy, dx f32, bf16 or f16 each (-D X_TYPE, Y_TYPE, DY_TYPE, DX_TYPE), residual as dx; w and
//   bias f32
// Work, Local: cl/rowwise/row_vecs.clh
// Cost: forward reads x, w and bias and writes y, 8 flops per element; backward reads dy, x, w and
//   residual and writes dx, 16 flops per element
// Numerics: the variance is the mean square of the differences from the mean, in a separate pass,
//   so a large mean costs no precision; float sums in a fixed order. A row is written only after
//   its sums are complete, each element by the item that reads it last: y may alias x, and dx may
//   alias dy or residual, if their types are the same
//! clc: build X_TYPE={f32,bf16} Y_TYPE={f32,bf16} VEC_SIZE=4 GROUP=128 ITEMS=64 VECS_PER_ITEM=4
//! clc: build X_TYPE=f16 Y_TYPE=f16 VEC_SIZE=8 GROUP=128 ITEMS=64 VECS_PER_ITEM=4
//! clc: build X_TYPE={f32,bf16} DY_TYPE=f32 DX_TYPE=f32 VEC_SIZE=4 GROUP=128 ITEMS=64
//!     VECS_PER_ITEM=4
//! clc: build X_TYPE=f32 Y_TYPE=f32 VEC_SIZE=1 GROUP=256 ITEMS=256 VECS_PER_ITEM=0
//! clc: build on nvidia: X_TYPE={f32,bf16} Y_TYPE={f32,bf16} VEC_SIZE=4 USE_PTX FULL_ROWS GROUP=128
//!     ITEMS=64 VECS_PER_ITEM=4
//! clc: budget on gfx90a registers<=112 spills=0
#include "rowwise/row_vecs.clh"

ROW_REDUCTION(row_sum, float, JOIN_SUM)
ROW_REDUCTION(row_sum2, float2, JOIN_SUM)

// Defines the mean and r (`scale`) of the row `in` of n vectors; they are the same in every item.
#define ROW_STATISTICS(mean, scale, loaded, in, n) \
  vec sum = 0.0f; \
  EACH_VEC(p, i, n) sum += VEC_OF(loaded, p, X_TYPE, in, i); \
  const float mean = row_sum(sum_of_lanes(sum), scratch, turn++) / (float)width; \
  vec squares = 0.0f; \
  EACH_VEC(p, i, n) { \
    const vec difference = VEC_OF(loaded, p, X_TYPE, in, i) - mean; \
    squares = fma(difference, difference, squares); \
  } \
  const float variance = row_sum(sum_of_lanes(squares), scratch, turn++) / (float)width; \
  const float scale = rsqrt(variance + epsilon)

#ifdef Y_TYPE
__attribute__((reqd_work_group_size(GROUP, 1, 1))) __kernel void layer_norm_forward(
    __global STORED(Y_TYPE)* y, __global const STORED(X_TYPE)* x, __global const float* w,
    __global const float* bias, long rows, int width, float epsilon) {
  __local float scratch[SCRATCH];
  uint turn = 0;
  EACH_ROWS(first, rows) {
    const long row = first + row_of_item();
    const int n = ROW_VECS(row < rows, width);
    __global const STORED(X_TYPE)* in = x + row * width;
    LOAD_ROW(loaded, X_TYPE, in, n);
    ROW_STATISTICS(mean, scale, loaded, in, n);
    EACH_VEC(p, i, n) {
      const vec normed = (VEC_OF(loaded, p, X_TYPE, in, i) - mean) * scale;
      STORE_VEC(Y_TYPE, y + row * width, i,
                fma(normed, LOAD_VEC(f32, w, i), LOAD_VEC(f32, bias, i)));
    }
  }
}
#else
__attribute__((reqd_work_group_size(GROUP, 1, 1))) __kernel void layer_norm_backward(
    __global STORED(DX_TYPE)* dx, __global const STORED(DY_TYPE)* dy,
    __global const STORED(X_TYPE)* x, __global const float* w,
    __global const STORED(DX_TYPE)* residual, int has_residual, long rows, int width,
    float epsilon) {
  __local float scratch[SCRATCH];
  __local float2 scratch2[SCRATCH];
  uint turn = 0;
  EACH_ROWS(first, rows) {
    const long at = (first + row_of_item()) * width;
    const int n = ROW_VECS(first + row_of_item() < rows, width);
    LOAD_ROW(loaded_x, X_TYPE, x + at, n);
    LOAD_ROW(loaded_dy, DY_TYPE, dy + at, n);
    LOAD_ROW(loaded_residual, DX_TYPE, residual + at, (has_residual ? n : 0));
    ROW_STATISTICS(mean, scale, loaded_x, x + at, n);
    vec gradients = 0.0f;
    vec products = 0.0f;
    EACH_VEC(p, i, n) {
      const vec g = VEC_OF(loaded_dy, p, DY_TYPE, dy + at, i) * LOAD_VEC(f32, w, i);
      gradients += g;
      products = fma(g, (VEC_OF(loaded_x, p, X_TYPE, x + at, i) - mean) * scale, products);
    }
    const float2 sums = (float2)(sum_of_lanes(gradients), sum_of_lanes(products));
    const float2 means = row_sum2(sums, scratch2, turn++) / (float)width;
    EACH_VEC(p, i, n) {
      const vec g = VEC_OF(loaded_dy, p, DY_TYPE, dy + at, i) * LOAD_VEC(f32, w, i);
      const vec normed = (VEC_OF(loaded_x, p, X_TYPE, x + at, i) - mean) * scale;
      vec d = scale * (g - means.x - normed * means.y);
      if (has_residual) d += VEC_OF(loaded_residual, p, DX_TYPE, residual + at, i);
      STORE_VEC(DX_TYPE, dx + at, i, d);
    }
  }
}
#endif
