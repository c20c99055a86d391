// dora: factors and gradients of layers with weight-decomposed adapters (Liu et al., 2024), whose
// outputs are y = g (w x + s b a x) + bias with g [N] = m / |w + s b a|, norms by rows.
//
//   dora_gram          gram[r, q] = sum_k a[r, k] a[q, k] for q <= r, of all layers
//   dora_column_scale  g[n] = m[n] / sqrt(squared[n] + 2 s sum_r b[r, n] p[r, n]
//                                         + s^2 sum_rq b[r, n] gram[r, q] b[q, n]),
//                      0 where the sum is not positive; p = a w^T; of all layers
//   dora_backward      scaled[t, n] = g[n] dy[t, n]
//                      parts[c, n] = sum of dy[t, n] (y[t, n] - bias[n]) over the rows of chunk c
//   dora_magnitudes    dm[n] += sum_c parts[c, n] / m[n], 0 where m[n] = 0; of up to MAX_SUMS layers
// Shapes  m, dm, bias, and of a layer g, squared [N]; b, p [R, N]; gram [R, R]; dy, y, scaled
//         [T, N]; parts [chunks, N]. a, b and m of all layers are in `parameters`, and p, gram, g and
//         squared in one buffer each: at the element offsets that the layers' words have
//         (dora_layers.clh); groups [work-groups, 2]: a group's layer, and its row of gram or its
//         first column
// Types   dy, y and scaled of -D DY_TYPE, Y_TYPE, SCALED_TYPE: f32, bf16 or f16; all else f32
// Work    gram: a group of SUM_GROUP items owns a row, BLOCK elements at a time, of which each item
//         sums every SUM_GROUP-th term. column_scale: an item owns a column. backward: an item owns
//         VEC_SIZE columns (dimension 0) of a chunk of chunk_rows rows (dimension 1), or with
//         -D BY_ROWS, for CPUs, all columns of a chunk, row by row, and sums in memory. magnitudes:
//         a group of SUM_GROUP items owns COLUMNS columns, of which SUM_GROUP / COLUMNS items sum
//         every so many-th chunk, of a layer (dimension 1)
// Local   gram: BLOCK * SUM_GROUP floats; magnitudes: SUM_GROUP floats
// Cost    backward reads dy and y and writes scaled, 3 flops an element; a part of 1 / chunk_rows
//         is written and read once more. column_scale: R (R + 4) flops a column
// Numerics  f32, in a fixed order. The sum of squares loses digits where its terms cancel: its
//         relative error is about 2^-22 (|w| + |s b a|)^2 / |w + s b a|^2
//! clc: build VEC_SIZE={1,4} DY_TYPE={f32,bf16} Y_TYPE={f32,bf16} SCALED_TYPE={f32,bf16}
//!     GROUP=64 COLUMNS=16 SUM_GROUP=256
//! clc: build VEC_SIZE=8 DY_TYPE=f32 Y_TYPE={f32,bf16} SCALED_TYPE=f32 GROUP=64 COLUMNS=16
//!     SUM_GROUP=64 BY_ROWS
//! clc: build VEC_SIZE=4 DY_TYPE=f32 Y_TYPE={f16,bf16} SCALED_TYPE={f16,bf16} GROUP=64 COLUMNS=16
//!     SUM_GROUP=256 HAS_BIAS
//! clc: budget on gfx90a registers<=80 spills=0
#if !defined(DY_TYPE) || !defined(Y_TYPE) || !defined(SCALED_TYPE) || !defined(GROUP) || \
    !defined(COLUMNS) || !defined(SUM_GROUP)
#error "DY_TYPE, Y_TYPE, SCALED_TYPE, GROUP, COLUMNS and SUM_GROUP are required"
#endif
#include "activations.clh"
#include "inlined.clh"
#include "lora_linear/dora_layers.clh"

#define BLOCK 8
#define AHEAD 4  // rows that an item of a GPU loads before it stores one: scaled may alias dy

__attribute__((reqd_work_group_size(SUM_GROUP, 1, 1))) __kernel void dora_gram(
    __global float* grams, __global const float* parameters, __global const uint* layers,
    __global const uint* groups) {
  __local float sums[BLOCK][SUM_GROUP];
  const uint item = get_local_id(0), group = get_group_id(0);
  __global const uint* layer = layers + groups[2 * group] * LAYER_WORDS;
  const uint row = groups[2 * group + 1], K = layer[K_OF], R = layer[R_OF];
  __global const float* a = parameters + layer[A_AT];
  __global float* gram = grams + layer[GRAM_AT] + (size_t)row * R;
  for (uint first = 0; first <= row; first += BLOCK) {
    float of_item[BLOCK];
    for (uint i = 0; i < BLOCK; ++i) of_item[i] = 0.0f;
    for (uint k = item; k < K; k += SUM_GROUP) {
      const float left = a[(size_t)row * K + k];
      for (uint i = 0; i < BLOCK; ++i) {
        of_item[i] = fma(left, a[(size_t)min(first + i, row) * K + k], of_item[i]);
      }
    }
    for (uint i = 0; i < BLOCK; ++i) sums[i][item] = of_item[i];
    barrier(CLK_LOCAL_MEM_FENCE);  // all sums are written
    if (item < BLOCK && first + item <= row) {
      float sum = 0.0f;
      for (uint i = 0; i < SUM_GROUP; ++i) sum += sums[item][i];
      gram[first + item] = sum;
    }
    barrier(CLK_LOCAL_MEM_FENCE);  // all sums are read before those of the next block
  }
}

// The quadratic form is symmetric: the terms below the diagonal count twice.
__attribute__((reqd_work_group_size(GROUP, 1, 1))) __kernel void dora_column_scale(
    __global float* g, __global const float* parameters, __global const float* squared,
    __global const float* products, __global const float* grams, __global const uint* layers,
    __global const uint* groups) {
  const uint group = get_group_id(0);
  __global const uint* layer = layers + groups[2 * group] * LAYER_WORDS;
  const uint n = groups[2 * group + 1] + get_local_id(0), N = layer[N_OF], R = layer[R_OF];
  if (n >= N) return;
  const float s = as_float(layer[SCALE_OF]);
  __global const float* b = parameters + layer[B_AT] + n;
  __global const float* p = products + layer[P_AT] + n;
  __global const float* gram = grams + layer[GRAM_AT];
  float linear = 0.0f, quadratic = 0.0f;
  for (uint r = 0; r < R; ++r) {
    const float of_r = b[(size_t)r * N];
    float row = 0.0f;
    for (uint q = 0; q < r; ++q) row = fma(gram[(size_t)r * R + q], b[(size_t)q * N], row);
    linear = fma(of_r, p[(size_t)r * N], linear);
    quadratic = fma(of_r, fma(2.0f, row, gram[(size_t)r * R + r] * of_r), quadratic);
  }
  const uint at = layer[COLUMNS_AT] + n;
  const float sum = squared[at] + s * fma(s, quadratic, 2.0f * linear);
  g[at] = sum > 0.0f ? parameters[layer[M_AT] + n] / sqrt(sum) : 0.0f;
}

#ifdef HAS_BIAS
#define BIAS_PARAMETER __global const float *bias,
#define BIAS_OF(at) LOAD_VEC(f32, bias, at)
#else
#define BIAS_PARAMETER
#define BIAS_OF(at) ((vec)(0.0f))
#endif

// Stores vec i of dy scaled; returns its products with f.
INLINED vec scale_vec(__global STORED(SCALED_TYPE)* scaled, vec d, vec y, long i, vec factor,
                      vec shift) {
  STORE_VEC(SCALED_TYPE, scaled, i, factor * d);
  return d * (y - shift);
}

__kernel void dora_backward(__global STORED(SCALED_TYPE)* scaled, __global float* parts,
                            __global const STORED(DY_TYPE)* dy, __global const STORED(Y_TYPE)* y,
                            BIAS_PARAMETER __global const float* g, uint T, uint N,
                            uint chunk_rows) {
  const uint vecs = N / VEC_SIZE, chunk = get_global_id(1);
  const uint begin = chunk * chunk_rows, end = min(T, begin + chunk_rows);
  parts += (size_t)chunk * N;
#ifdef BY_ROWS
  for (uint at = 0; at < vecs; ++at) STORE_VEC(f32, parts, at, (vec)(0.0f));
  for (uint t = begin; t < end; ++t) {
    for (uint at = 0; at < vecs; ++at) {
      const long i = (long)t * vecs + at;
      const vec products = scale_vec(scaled, LOAD_VEC(DY_TYPE, dy, i), LOAD_VEC(Y_TYPE, y, i), i,
                                     LOAD_VEC(f32, g, at), BIAS_OF(at));
      STORE_VEC(f32, parts, at, LOAD_VEC(f32, parts, at) + products);
    }
  }
#else
  const uint at = get_global_id(0);
  if (at >= vecs) return;
  const vec factor = LOAD_VEC(f32, g, at), shift = BIAS_OF(at);
  vec sum = 0.0f;
  for (uint first = begin; first < end; first += AHEAD) {
    vec d[AHEAD], f[AHEAD];
#pragma unroll
    for (uint j = 0; j < AHEAD; ++j) {
      const long i = (long)min(first + j, end - 1) * vecs + at;
      d[j] = LOAD_VEC(DY_TYPE, dy, i);
      f[j] = LOAD_VEC(Y_TYPE, y, i);
    }
#pragma unroll
    for (uint j = 0; j < AHEAD; ++j) {
      if (first + j >= end) continue;
      sum += scale_vec(scaled, d[j], f[j], (long)(first + j) * vecs + at, factor, shift);
    }
  }
  STORE_VEC(f32, parts, at, sum);
#endif
}

#define LANES_OF_COLUMN (SUM_GROUP / COLUMNS)
#define MAX_SUMS 8

typedef struct {
  uint columns[MAX_SUMS], chunks[MAX_SUMS];
} SumSizes;
#define SUM_PARAMETERS(i) \
  __global float *dm_##i, __global const float *parts_##i, __global const float *m_##i
#define OF_SUM(name, i)                                                               \
  ((i) == 0 ? name##_0 : (i) == 1 ? name##_1 : (i) == 2 ? name##_2 : (i) == 3 ? name##_3 \
   : (i) == 4 ? name##_4 : (i) == 5 ? name##_5 : (i) == 6 ? name##_6 : name##_7)

__attribute__((reqd_work_group_size(SUM_GROUP, 1, 1))) __kernel void dora_magnitudes(
    SUM_PARAMETERS(0), SUM_PARAMETERS(1), SUM_PARAMETERS(2), SUM_PARAMETERS(3), SUM_PARAMETERS(4),
    SUM_PARAMETERS(5), SUM_PARAMETERS(6), SUM_PARAMETERS(7), SumSizes sizes) {
  __local float sums[SUM_GROUP];
  const uint item = get_local_id(0), lane = item / COLUMNS, of = get_group_id(1);
  const uint N = sizes.columns[of], chunks = sizes.chunks[of];
  const uint n = get_group_id(0) * COLUMNS + item % COLUMNS;
  __global const float* parts = OF_SUM(parts, of);
  float sum = 0.0f;
  if (n < N) {
    for (uint c = lane; c < chunks; c += LANES_OF_COLUMN) sum += parts[(size_t)c * N + n];
  }
  sums[item] = sum;
  barrier(CLK_LOCAL_MEM_FENCE);  // all sums are written
  if (lane != 0 || n >= N) return;
  const float m = OF_SUM(m, of)[n];
  if (m == 0.0f) return;
  float all = 0.0f;
  for (uint i = 0; i < LANES_OF_COLUMN; ++i) all += sums[i * COLUMNS + item];
  OF_SUM(dm, of)[n] += all / m;
}
