// load_balance: the loss that balances the load of experts (Fedus et al., 2021, equations 4 to 6),
// over the rows of L layers of experts together.
//
//   f_e = how many of the L N rows have chosen expert e, P_e = the sum of their p_e,
//   p = softmax(logits of a row);  scale = X / (L N)^2
//   load_balance_sums      sums [L, B, 2, X]: of a layer and a block of ROWS rows, P and f
//   load_balance_loss      loss [1] += the sum over experts of dp_e P_e, where dp_e = scale f_e
//   load_balance_backward  dlogits [T, X] += weight p (dp - the sum over experts of p dp)
//
// Only the first N of the T rows count. f is not differentiated: a choice has no gradient.
//
// Shapes: X experts, K of them for each row, B = ceil(T / ROWS); scalars [2]: weight and N
// Types: f32; ids are i32
// Work: sums: a work-group owns a block of rows, an item of it every GROUP-th expert; loss: a
//   single work-group, an item owns every GROUP-th expert; backward: an item owns a row
// Local: sums: two floats for each row of the block; loss: two for each item
// Cost: sums read the logits X / GROUP + 2 times and ids X / GROUP times, from the cache; the
//   backward reads the logits 4 times
// Numerics: sums over rows are in their order, those over blocks, layers and experts compensated.
//   f is exact up to 2^24 rows. The order is fixed
//! clc: build GROUP={1,64,256} ROWS=64
//! clc: grid of load_balance_sums ceil(T/ROWS)*GROUP by GROUP
//! clc: grid of load_balance_loss GROUP by GROUP
#ifndef GROUP
#error "GROUP: work-items of a group of load_balance_sums and load_balance_loss, a power of two"
#endif
#ifndef ROWS
#error "ROWS: rows of a block"
#endif

#include "experts/router_softmax.clh"
#include "group_reduce.clh"

// How often a row has chosen `expert`: once or not at all.
float chooses(__global const int* ids, uint K, int expert) {
  int count = 0;
  for (uint k = 0; k < K; ++k) count += ids[k] == expert;
  return (float)count;
}

uint rows_that_count(__global const float* scalars, uint T) { return min((uint)scalars[1], T); }

__attribute__((reqd_work_group_size(GROUP, 1, 1))) __kernel void load_balance_sums(
    __global float* sums, __global const float* logits, __global const int* ids,
    __global const float* scalars, uint T, uint X, uint K, uint layer) {
  __local float row_max[ROWS], row_sum[ROWS];
  const uint item = get_local_id(0), first = get_group_id(0) * ROWS;
  const uint N = rows_that_count(scalars, T);
  const uint rows = first < N ? min(N - first, (uint)ROWS) : 0;
  __global const float* block_logits = logits + (size_t)first * X;
  __global const int* block_ids = ids + (size_t)first * K;
  for (uint r = item; r < rows; r += GROUP) {
    const Softmax softmax = softmax_of(block_logits + (size_t)r * X, X);
    row_max[r] = softmax.max;
    row_sum[r] = softmax.sum;
  }
  barrier(CLK_LOCAL_MEM_FENCE);  // the softmax of each row is written
  __global float* block_sums = sums + ((size_t)layer * get_num_groups(0) + get_group_id(0)) * 2 * X;
  for (uint e = item; e < X; e += GROUP) {
    float p = 0.0f, f = 0.0f;
    for (uint r = 0; r < rows; ++r) {
      const Softmax softmax = {row_max[r], row_sum[r]};
      p += probability(softmax, block_logits[(size_t)r * X + e]);
      f += chooses(block_ids + (size_t)r * K, K, (int)e);
    }
    block_sums[e] = p;
    block_sums[X + e] = f;
  }
}

__attribute__((reqd_work_group_size(GROUP, 1, 1))) __kernel void load_balance_loss(
    __global float* loss, __global float* dp, __global const float* sums,
    __global const float* scalars, uint T, uint X, uint L, uint blocks) {
  __local float2 scratch[GROUP];
  const float total = (float)L * (float)rows_that_count(scalars, T);
  float part = 0.0f, part_lost = 0.0f;
  for (uint e = get_local_id(0); e < X; e += GROUP) {
    float p = 0.0f, lost = 0.0f, f = 0.0f;
    for (uint i = 0; i < L * blocks; ++i) {
      __global const float* block_sums = sums + (size_t)i * 2 * X;
      add_compensated(&p, &lost, block_sums[e]);
      f += block_sums[X + e];
    }
    const float slope = f / total * ((float)X / total);
    dp[e] = slope;
    add_compensated(&part, &part_lost, slope * (p + lost));
  }
  const float all = group_sum_compensated(part, part_lost, scratch);
  if (get_local_id(0) == 0) loss[0] += all;
}

__kernel void load_balance_backward(__global float* dlogits, __global const float* logits,
                                    __global const float* dp, __global const float* scalars, uint T,
                                    uint X) {
  const uint t = get_global_id(0);
  if (t >= rows_that_count(scalars, T)) return;
  __global const float* row = logits + (size_t)t * X;
  __global float* dlogit = dlogits + (size_t)t * X;
  const Softmax softmax = softmax_of(row, X);
  float dot = 0.0f;
  for (uint i = 0; i < X; ++i) dot = fma(probability(softmax, row[i]), dp[i], dot);
  const float weight = scalars[0];
  for (uint i = 0; i < X; ++i) {
    dlogit[i] = fma(weight * probability(softmax, row[i]), dp[i] - dot, dlogit[i]);
  }
}
