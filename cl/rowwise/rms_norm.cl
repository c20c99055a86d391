// rms_norm, portable: y = x r w, r = 1 / sqrt(mean(x^2) + epsilon) over the last dimension; with
// -D ADDEND_TYPE, y = addend + factor x r w.
// backward: dx = residual + r (g - x r^2 mean(g x)), g = dy w; residual only with -D HAS_RESIDUAL,
//   and with -D IN_PLACE it is dx itself. With -D ROUNDS it also writes dx_bf16, dx cast to bf16,
//   and with -D Y_TYPE y.
// Shapes: x, y, addend, dy, dx, residual, dx_bf16 [rows, width]; w [width]
// Types: x, y, addend, dy, dx f32, bf16 or f16 each (-D X_TYPE, Y_TYPE, ...), residual as dx;
//   w f32; dx_bf16 bf16
// Work, Local: cl/rowwise/row_vecs.clh
// Cost: forward reads x and w and writes y, 4 flops per element; backward reads dy, x, w and
//   residual and writes dx, 11 flops per element, and 2 for y
// Numerics: float sums over the vectors of an item, then over items; the order is fixed. A row is
//   written only after its sums are complete, each element by the item that reads it last: y may
//   alias x or addend, and dx may alias dy or residual, if their types are the same
//! clc: build X_TYPE={f32,bf16} Y_TYPE={f32,bf16} VEC_SIZE=4 GROUP=128 ITEMS=64 VECS_PER_ITEM=4
//! clc: build X_TYPE={f32,bf16} Y_TYPE=f32 ADDEND_TYPE=f32 VEC_SIZE=4 GROUP=128 ITEMS=64
//!     VECS_PER_ITEM=4
//! clc: build X_TYPE=f16 Y_TYPE=f16 VEC_SIZE=8 GROUP=128 ITEMS=64 VECS_PER_ITEM=4
//! clc: build X_TYPE={f32,bf16} DY_TYPE=f32 DX_TYPE=f32 HAS_RESIDUAL VEC_SIZE=4 GROUP=128
//!     ITEMS=64 VECS_PER_ITEM=4
//! clc: build X_TYPE=f32 Y_TYPE=f32 VEC_SIZE=1 GROUP=256 ITEMS=256 VECS_PER_ITEM=0
//! clc: build on nvidia: X_TYPE={f32,bf16} Y_TYPE={f32,bf16} VEC_SIZE=4 USE_PTX FULL_ROWS GROUP=128
//!     ITEMS=64 VECS_PER_ITEM=4
//! clc: budget on gfx90a registers<=96 spills=0
#include "rowwise/row_vecs.clh"

ROW_REDUCTION(row_sum, float, JOIN_SUM)
ROW_REDUCTION(row_sum2, float2, JOIN_SUM)

#ifndef DY_TYPE
__attribute__((reqd_work_group_size(GROUP, 1, 1))) __kernel void rms_norm_forward(
    __global STORED(Y_TYPE)* y, __global const STORED(X_TYPE)* x, __global const float* w,
#ifdef ADDEND_TYPE
    __global const STORED(ADDEND_TYPE)* addend, float factor,
#endif
    long rows, int width, float epsilon) {
  __local float scratch[SCRATCH];
  uint turn = 0;
  EACH_ROWS(first, rows) {
    const long row = first + row_of_item();
    const int n = ROW_VECS(row < rows, width);
    __global const STORED(X_TYPE)* in = x + row * width;
    LOAD_ROW(loaded, X_TYPE, in, n);
    vec squares = 0.0f;
    EACH_VEC(p, i, n) {
      const vec v = VEC_OF(loaded, p, X_TYPE, in, i);
      squares = fma(v, v, squares);
    }
    const float sum = row_sum(sum_of_lanes(squares), scratch, turn++);
    const float scale = rsqrt(sum / (float)width + epsilon);
    EACH_VEC(p, i, n) {
      const vec v = VEC_OF(loaded, p, X_TYPE, in, i);
#ifdef ADDEND_TYPE
      const vec before = LOAD_VEC(ADDEND_TYPE, addend + row * width, i);
      STORE_VEC(Y_TYPE, y + row * width, i,
                fma((vec)(factor), v * scale * LOAD_VEC(f32, w, i), before));
#else
      STORE_VEC(Y_TYPE, y + row * width, i, v * scale * LOAD_VEC(f32, w, i));
#endif
    }
  }
}
#else

__attribute__((reqd_work_group_size(GROUP, 1, 1))) __kernel void rms_norm_backward(
    __global STORED(DX_TYPE)* dx, __global const STORED(DY_TYPE)* dy,
    __global const STORED(X_TYPE)* x, __global const float* w,
#if defined(HAS_RESIDUAL) && !defined(IN_PLACE)
    __global const STORED(DX_TYPE)* residual,
#endif
#ifdef ROUNDS
    __global ushort* dx_bf16,
#endif
#ifdef Y_TYPE
    __global STORED(Y_TYPE)* y,
#endif
    long rows, int width, float epsilon) {
  __local float2 scratch[SCRATCH];
#ifdef IN_PLACE
  __global const STORED(DX_TYPE)* residual = dx;
#endif
  uint turn = 0;
  EACH_ROWS(first, rows) {
    const long at = (first + row_of_item()) * width;
    const int n = ROW_VECS(first + row_of_item() < rows, width);
    LOAD_ROW(loaded_x, X_TYPE, x + at, n);
    LOAD_ROW(loaded_dy, DY_TYPE, dy + at, n);
#ifdef HAS_RESIDUAL
    LOAD_ROW(loaded_residual, DX_TYPE, residual + at, n);
#endif
    vec squares = 0.0f;
    vec products = 0.0f;
    EACH_VEC(p, i, n) {
      const vec v = VEC_OF(loaded_x, p, X_TYPE, x + at, i);
      squares = fma(v, v, squares);
      products = fma(VEC_OF(loaded_dy, p, DY_TYPE, dy + at, i) * LOAD_VEC(f32, w, i), v, products);
    }
    const float2 sums =
        row_sum2((float2)(sum_of_lanes(squares), sum_of_lanes(products)), scratch, turn++) /
        (float)width;
    const float scale = rsqrt(sums.x + epsilon);
    const vec along_x = -sums.y * scale * scale;
    EACH_VEC(p, i, n) {
      const vec v = VEC_OF(loaded_x, p, X_TYPE, x + at, i);
      const vec weights = LOAD_VEC(f32, w, i);
      const vec g = VEC_OF(loaded_dy, p, DY_TYPE, dy + at, i) * weights;
      vec d = scale * fma(along_x, v, g);
#ifdef HAS_RESIDUAL
      d += VEC_OF(loaded_residual, p, DX_TYPE, residual + at, i);
#endif
      STORE_VEC(DX_TYPE, dx + at, i, d);
#ifdef ROUNDS
      store_bf16(dx_bf16 + at, i, d);
#endif
#ifdef Y_TYPE
      STORE_VEC(Y_TYPE, y + at, i, v * scale * weights);
#endif
    }
  }
}
#endif
