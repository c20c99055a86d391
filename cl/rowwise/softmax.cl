// softmax, portable, over the last dimension: y_i = exp(x_i - max x) / sum_j exp(x_j - max x).
// backward: dx_i = y_i (dy_i - sum_j dy_j y_j).
// Shapes: x, y, dy, dx [rows, width]
// Types: f32, bf16 or f16 each (-D X_TYPE, Y_TYPE, DY_TYPE, DX_TYPE)
// Work, Local: cl/rowwise/row_vecs.clh
// Cost: forward reads x and writes y, 4 flops and an exp per element (a row too long for registers:
//   two more reads, from the cache, and an exp); backward reads dy and y and writes dx, 4 flops per
//   element
// Numerics: the largest element is subtracted first, so nothing overflows and the sum is at least
//   1; float sums over the vectors of an item, then over items, in a fixed order. The same item
//   reads an element before it writes it: y may alias x, and dx may alias dy, if their types are
//   the same
//! clc: build X_TYPE={f32,bf16} Y_TYPE={f32,bf16} VEC_SIZE=4 GROUP=128 ITEMS=64 VECS_PER_ITEM=4
//! clc: build X_TYPE=f16 Y_TYPE=f16 VEC_SIZE=8 GROUP=128 ITEMS=64 VECS_PER_ITEM=4
//! clc: build DY_TYPE={f32,bf16} Y_TYPE=f32 DX_TYPE=f32 VEC_SIZE=4 GROUP=128 ITEMS=64
//!     VECS_PER_ITEM=4
//! clc: build X_TYPE=f32 Y_TYPE=f32 VEC_SIZE=1 GROUP=256 ITEMS=256 VECS_PER_ITEM=0
//! clc: build on nvidia: X_TYPE={f32,bf16} Y_TYPE={f32,bf16} VEC_SIZE=4 USE_PTX FULL_ROWS GROUP=128
//!     ITEMS=64 VECS_PER_ITEM=4
//! clc: budget on gfx90a registers<=72 spills=0
#include "rowwise/row_vecs.clh"

ROW_REDUCTION(row_sum, float, JOIN_SUM)
ROW_REDUCTION(row_max, float, fmax)

// A result that is rounded to bf16 or f16 needs no better exponential than the device's native one.
#ifdef USE_PTX
#define LOG2_E 1.44269504f
#define LN_2 0.693147182f
#define LN_2_REST -1.90465432e-9f  // ln 2 = LN_2 + LN_2_REST
// e^x for x <= 0 to 3 ulp; results below 2^-126 become 0. With p = x log2 e, rounded, and
// rest = x - p ln 2, e^x = 2^p e^rest, and e^rest is 1 + rest.
float exp_of(float x) {
  asm("max.NaN.f32 %0, %0, 0fC3000000;" : "+f"(x));  // at least -128: -INFINITY would make rest NaN
  const float p = x * LOG2_E;
  const float rest = fma(-p, LN_2_REST, fma(-p, LN_2, x));
  const float power = exp2_of(p);
  return fma(power, rest, power);
}
float short_exp_of(float x) { return exp2_of(x * LOG2_E); }
#define EXP_LANES(NAME, OF) \
  vec NAME(vec x) { \
    _Pragma("unroll") for (int i = 0; i < VEC_SIZE; ++i) ((float*)&x)[i] = OF(((float*)&x)[i]); \
    return x; \
  }
EXP_LANES(EXP_f32, exp_of)
EXP_LANES(EXP_bf16, short_exp_of)
#define EXP_f16(x) EXP_bf16(x)
#else
#define EXP_f32(x) exp(x)
#define EXP_bf16(x) native_exp(x)
#define EXP_f16(x) native_exp(x)
#endif
#define EXP(type, x) JOINED(EXP_, type)(x)

#ifdef X_TYPE
__attribute__((reqd_work_group_size(GROUP, 1, 1))) __kernel void softmax_forward(
    __global STORED(Y_TYPE)* y, __global const STORED(X_TYPE)* x, long rows, int width) {
  __local float scratch[SCRATCH];
  uint turn = 0;
  EACH_ROWS(first, rows) {
    const long row = first + row_of_item();
    const int n = ROW_VECS(row < rows, width);
    __global const STORED(X_TYPE)* in = x + row * width;
    LOAD_ROW(loaded, X_TYPE, in, n);
    vec maxima = -INFINITY;
    EACH_VEC(p, i, n) maxima = fmax(maxima, VEC_OF(loaded, p, X_TYPE, in, i));
    const float max_x = row_max(max_of_lanes(maxima), scratch, turn++);
    vec sums = 0.0f;
#if VECS_PER_ITEM
    vec powers[VECS_PER_ITEM];
    EACH_OWNED(p, i) {
      const vec e = EXP(Y_TYPE, AS_VEC(X_TYPE, loaded[p]) - max_x);
      powers[p] = i < n ? e : (vec)(0.0f);
      sums += powers[p];
    }
#define POWER(p, i) powers[p]
#else
#define POWER(p, i) EXP(Y_TYPE, VEC_OF(loaded, p, X_TYPE, in, i) - max_x)
    EACH_VEC(p, i, n) sums += POWER(p, i);
#endif
    const float scale = 1.0f / row_sum(sum_of_lanes(sums), scratch, turn++);
    EACH_VEC(p, i, n) STORE_VEC(Y_TYPE, y + row * width, i, POWER(p, i) * scale);
  }
}
#else
__attribute__((reqd_work_group_size(GROUP, 1, 1))) __kernel void softmax_backward(
    __global STORED(DX_TYPE)* dx, __global const STORED(DY_TYPE)* dy,
    __global const STORED(Y_TYPE)* y, long rows, int width) {
  __local float scratch[SCRATCH];
  uint turn = 0;
  EACH_ROWS(first, rows) {
    const long at = (first + row_of_item()) * width;
    const int n = ROW_VECS(first + row_of_item() < rows, width);
    LOAD_ROW(loaded_dy, DY_TYPE, dy + at, n);
    LOAD_ROW(loaded_y, Y_TYPE, y + at, n);
    vec products = 0.0f;
    EACH_VEC(p, i, n) {
      products = fma(VEC_OF(loaded_dy, p, DY_TYPE, dy + at, i),
                     VEC_OF(loaded_y, p, Y_TYPE, y + at, i), products);
    }
    const float sum = row_sum(sum_of_lanes(products), scratch, turn++);
    EACH_VEC(p, i, n) {
      const vec d = VEC_OF(loaded_dy, p, DY_TYPE, dy + at, i) - sum;
      STORE_VEC(DX_TYPE, dx + at, i, VEC_OF(loaded_y, p, Y_TYPE, y + at, i) * d);
    }
  }
}
#endif
