// lora_linear: the gradients of an adapter's matrices, on any device. The other parts of the layer
// are products (gemm.cl).
//
//   out [R, K] += scale * s [T, R]^T x [T, K]
//   with -D PROBLEMS=2, 3 or 4  the same of as many problems, whose K and scale may differ
// There are two launches: lora_gradient_parts sums each chunk of the T rows, and lora_gradient_sum
// adds the chunks.
// Shapes  as in the formula; parts [chunks][R][K], those of a problem after those of the one before
// Types   x of -D X_TYPE, s of S_TYPE: f32, bf16 or f16; all else f32
// Work    parts: a work-group of ITEMS items owns ITEMS * VEC_SIZE columns and RANKS rows of out
//         and a chunk of chunk_rows rows of s and x; an item owns VEC_SIZE columns. The groups of a
//         problem follow those of the one before in dimension 0. sum: an item owns one element;
//         dimension 1 is the problem. REQUIRES: K is a multiple of VEC_SIZE, x aligned to VEC_SIZE
//         elements
// Local   STEPS rows of s [STEPS][RANKS]
// Tiles      a chunk of rows: s^T |#| x  |########|   ->  parts tile [RANKS, ITEMS * VEC_SIZE], in
//            registers
// Cost    2 T R K flops; x is read R / RANKS times, parts are written and read once
// Numerics  f32 fma over t in order, chunks added in order: bitwise reproducible
//! clc: build ITEMS=64 VEC_SIZE=4 RANKS=16 STEPS=64 X_TYPE={f32,bf16,f16} S_TYPE={f32,bf16,f16}
//! clc: build ITEMS=64 VEC_SIZE=1 RANKS=16 STEPS=64 X_TYPE=f32 S_TYPE=f32
//! clc: build ITEMS=64 VEC_SIZE=4 RANKS=16 STEPS=64 X_TYPE=f32 S_TYPE=f32 PROBLEMS={2,3,4}
//! clc: budget on gfx90a registers<=160 spills=0
#if !defined(ITEMS) || !defined(RANKS) || !defined(STEPS) || !defined(X_TYPE) || \
    !defined(S_TYPE)
#error "ITEMS, RANKS, STEPS, X_TYPE and S_TYPE are required"
#endif
#include "activations.clh"
#include "gemm/gemm_groups.clh"

#define AHEAD 8  // rows of x that an item loads at once
#if STEPS % AHEAD != 0
#error "STEPS must be a multiple of AHEAD"
#endif

// Work-groups for K columns.
#define GROUPS_OF(K) (((K) + ITEMS * VEC_SIZE - 1) / (ITEMS * VEC_SIZE))

// The vecs `at` of AHEAD rows of x from `row` on; past row `last`, of that one.
void load_rows(STORED_VEC(X_TYPE) rows[AHEAD], __global const STORED(X_TYPE)* x, uint row,
               uint last, uint vecs, uint at) {
#pragma unroll
  for (uint i = 0; i < AHEAD; ++i) {
    rows[i] = LOAD_STORED(X_TYPE, x, min(row + i, last) * (size_t)vecs + at);
  }
}

__attribute__((reqd_work_group_size(ITEMS, 1, 1))) __kernel void lora_gradient_parts(
    __global float* parts, EACH(__global const STORED(S_TYPE)*, s),
    EACH(__global const STORED(X_TYPE)*, x), uint T, uint R, EACH(uint, K), uint chunk_rows) {
  __local float s_tile[STEPS][RANKS] __attribute__((aligned(16)));
  const uint item = get_local_id(0), chunk = get_group_id(1);
  uint problem = 0, group = get_group_id(0);
#if PROBLEMS > 1
  while (problem + 1 < PROBLEMS && group >= GROUPS_OF(OF(problem, K))) {
    group -= GROUPS_OF(OF(problem, K));
    parts += (size_t)get_num_groups(1) * R * OF(problem, K);
    ++problem;
  }
#endif
  __global const STORED(S_TYPE)* s_rows = OF(problem, s);
  __global const STORED(X_TYPE)* x_rows = OF(problem, x);
  const uint vecs = OF(problem, K) / VEC_SIZE, at = group * ITEMS + item;
  const uint r0 = get_group_id(2) * RANKS;
  const uint end = min(T, (chunk + 1) * chunk_rows);
  const uint own = min(at, vecs - 1);  // items without columns compute the last ones again
  vec sums[RANKS];
#pragma unroll
  for (uint r = 0; r < RANKS; ++r) sums[r] = (vec)(0.0f);
  STORED_VEC(X_TYPE) rows[AHEAD], next[AHEAD];
  load_rows(rows, x_rows, chunk * chunk_rows, end - 1, vecs, own);
  for (uint begin = chunk * chunk_rows; begin < end; begin += STEPS) {
    for (uint e = item; e < STEPS * RANKS; e += ITEMS) {
      const uint t = begin + e / RANKS, r = r0 + e % RANKS;
      s_tile[e / RANKS][e % RANKS] =
          t < end && r < R ? LOAD_ONE(S_TYPE, s_rows, (size_t)t * R + r) : 0.0f;
    }
    barrier(CLK_LOCAL_MEM_FENCE);  // the tile is complete
    for (uint t = 0; t < STEPS && begin + t < end; t += AHEAD) {
      load_rows(next, x_rows, begin + t + AHEAD, end - 1, vecs, own);
#pragma unroll
      for (uint i = 0; i < AHEAD; ++i) {  // past the end, s is zero
        const vec row = AS_VEC(X_TYPE, rows[i]);
#pragma unroll
        for (uint r = 0; r < RANKS; ++r) sums[r] = fma((vec)(s_tile[t + i][r]), row, sums[r]);
        rows[i] = next[i];
      }
    }
    barrier(CLK_LOCAL_MEM_FENCE);  // the tile is read before the next rows overwrite it
  }
  if (at >= vecs) return;
#pragma unroll
  for (uint r = 0; r < RANKS; ++r) {
    if (r0 + r < R) {
      STORE_VEC(f32, parts, (long)(((size_t)chunk * R + r0 + r) * vecs + at), sums[r]);
    }
  }
}

__kernel void lora_gradient_sum(EACH(__global float*, out), __global const float* parts, uint R,
                                EACH(uint, K), uint chunks, EACH(float, scale)) {
  const uint i = get_global_id(0), problem = get_group_id(1);
#if PROBLEMS > 1
  for (uint before = 0; before < problem; ++before) {
    parts += (size_t)chunks * R * OF(before, K);
  }
#endif
  const uint elements = R * OF(problem, K);
  if (i >= elements) return;
  float sum = 0.0f;
#pragma unroll 8
  for (uint chunk = 0; chunk < chunks; ++chunk) sum += parts[(size_t)chunk * elements + i];
  OF(problem, out)[i] += OF(problem, scale) * sum;
}
