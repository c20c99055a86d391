// contrastive: the in-batch contrastive loss of text vectors, and its gradient. A text with
// targets[b] = b is a candidate; one whose target is another text, a candidate, is an anchor; the
// others (targets[b] < 0) take no part.
//   s[i, j] = scale * x[i] . x[j]               for anchors i and candidates j
//   loss[i] = log(sum_j exp(s[i, j])) - s[i, targets[i]]
//   w[i, j] = weight * scale * (softmax_j(s[i, j]) - (j == targets[i]))
//   dx[b]   = sum_j (w[b, j] + w[j, b]) x[j]
//
// Shapes  x, dx [B, D]; w [B, B]; loss, targets [B]; weight [1]
// Types   f32; targets i32
// Work    contrastive_scores: a work-group owns one row of w, an item every GROUP-th element of it.
//         contrastive_gradient: an item owns one column of one text
// Local   GROUP floats
// Cost    2 B^2 D flops forward (rows of anchors only), 4 B^2 D backward
// Numerics  the row's largest score is subtracted first; every sum is in one fixed order
//! clc: build GROUP=64
//! clc: budget on gfx90a registers<=48 spills=0
#include "group_reduce.clh"

// Overwrites loss and w.
__attribute__((reqd_work_group_size(GROUP, 1, 1))) __kernel void contrastive_scores(
    __global float* restrict loss, __global float* restrict w, __global const float* restrict x,
    __global const int* restrict targets, __global const float* restrict weight, float scale, int B,
    int D) {
  __local float scratch[GROUP];
  const int i = (int)get_group_id(0), item = (int)get_local_id(0);
  const int target = targets[i];
  const bool is_anchor = target >= 0 && target != i;
  __global float* row = w + (long)i * B;
  __global const float* own = x + (long)i * D;
  float row_max = -INFINITY, of_target = 0.0f;
  for (int j = item; j < B; j += GROUP) {
    row[j] = 0.0f;
    if (!is_anchor || targets[j] != j) continue;
    __global const float* other = x + (long)j * D;
    float dot = 0.0f;
    for (int d = 0; d < D; ++d) dot = fma(own[d], other[d], dot);
    row[j] = scale * dot;
    row_max = fmax(row_max, row[j]);
    if (j == target) of_target = row[j];
  }
  row_max = group_max(row_max, scratch);
  float powers = 0.0f;
  for (int j = item; j < B; j += GROUP) {
    if (is_anchor && targets[j] == j) powers += exp(row[j] - row_max);
  }
  powers = group_sum(powers, scratch);
  of_target = group_sum(of_target, scratch);
  if (item == 0) loss[i] = is_anchor ? log(powers) + row_max - of_target : 0.0f;
  const float factor = weight[0] * scale;
  for (int j = item; j < B; j += GROUP) {
    if (!is_anchor || targets[j] != j) continue;
    const float p = exp(row[j] - row_max) / powers;
    row[j] = factor * (j == target ? p - 1.0f : p);
  }
}

// Overwrites dx.
__kernel void contrastive_gradient(__global float* restrict dx, __global const float* restrict w,
                                   __global const float* restrict x, int B, int D) {
  const int d = (int)get_global_id(0), b = (int)get_global_id(1);
  if (d >= D) return;
  float sum = 0.0f;
  for (int j = 0; j < B; ++j) {
    sum = fma(w[(long)b * B + j] + w[(long)j * B + b], x[(long)j * D + d], sum);
  }
  dx[(long)b * D + d] = sum;
}
