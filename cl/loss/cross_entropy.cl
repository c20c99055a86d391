// cross_entropy: the loss of a language model over rows of logits, and its gradient.
//
//   max     = max_v logits[t, v]
//   loss[t] = log(sum_v exp(logits[t, v] - max)) + (max - logits[t, targets[t]])
//   dlogits[t, v] = (exp(logits[t, v] - max) / sum - (v == targets[t])) * weight
//   both 0 if targets[t] < 0; loss NaN and dlogits 0 if targets[t] >= V
//   -D SOFT_CAP: of capped logits; dlogits are those of the logits before it (soft_cap.clh)
//   sum_in_order: sum = sum_i x[i] (+ sum)
//
// Shapes  logits, dlogits [T, V] (dlogits may be logits), loss, targets [T], weight, sum [1]
// Types   logits and dlogits of -D X_TYPE: f32, bf16 or f16; targets i32; all else f32
// Work    a group of GROUP items owns row get_group_id(0); item i owns columns i, i + GROUP, ...
//         sum_in_order: one group owns everything
// Local   GROUP floats (sum_in_order: 2 GROUP)
// Cost    a row: V reads for the sum and V for the gradient; V writes; 2 exp per element
// Numerics  exponentials are relative to the largest logit so far (row_sum_exp.clh); an item adds
//         its V / GROUP terms in order, then a tree follows. sum_in_order is compensated.
//! clc: build GROUP={256,1024} X_TYPE={f32,bf16,f16}
//! clc: build GROUP=256 X_TYPE=f32 SOFT_CAP=30.0f
//! clc: budget on gfx90a registers<=56 spills=0
#ifndef GROUP
#error "GROUP: work-items of a group, a power of two"
#endif

#include "elements.clh"
#include "group_reduce.clh"
#include "rowwise/row_sum_exp.clh"

float row_loss(__global const STORED(X_TYPE)* row, int vocabulary, int target, float max_logit, float sum) {
  if (target < 0) return 0.0f;
  if (target >= vocabulary) return NAN;
  return log(sum) + (max_logit - element_at(row, target));
}

// The gradient of a logit; 0 in an unlabelled row, whatever the logit.
float dlogit(float logit, float max_logit, float inverse_sum, bool is_target, bool labelled,
             float weight) {
  const float p = exp(logit - max_logit) * inverse_sum;
  float d = (is_target ? p - 1.0f : p) * weight;
  CAP_GRADIENTS(d, logit, 1.0f);
  return labelled ? d : 0.0f;
}

__attribute__((reqd_work_group_size(GROUP, 1, 1)))
__kernel void cross_entropy_loss(__global float* loss, __global const STORED(X_TYPE)* logits,
                                 __global const int* targets, int vocabulary) {
  __local float scratch[GROUP];
  const size_t t = get_group_id(0);
  __global const STORED(X_TYPE)* row = logits + t * (size_t)vocabulary;
  float max_logit;
  const float sum = row_sum_exp(row, vocabulary, &max_logit, scratch);
  if (get_local_id(0) == 0) loss[t] = row_loss(row, vocabulary, targets[t], max_logit, sum);
}

__attribute__((reqd_work_group_size(GROUP, 1, 1)))
__kernel void cross_entropy_gradient(__global float* loss, __global STORED(X_TYPE)* dlogits,
                                     __global const STORED(X_TYPE)* logits,
                                     __global const int* targets, __global const float* weight,
                                     int vocabulary) {
  __local float scratch[GROUP];
  const size_t t = get_group_id(0);
  const int target = targets[t];
  __global const STORED(X_TYPE)* row = logits + t * (size_t)vocabulary;
  __global STORED(X_TYPE)* drow = dlogits + t * (size_t)vocabulary;
  float max_logit;
  const float sum = row_sum_exp(row, vocabulary, &max_logit, scratch);
  if (get_local_id(0) == 0) loss[t] = row_loss(row, vocabulary, target, max_logit, sum);
  barrier(CLK_GLOBAL_MEM_FENCE);  // the loss reads its logit before dlogits may overwrite it
  const bool labelled = target >= 0 && target < vocabulary;
  const float inverse = 1.0f / sum;
  int v = (int)get_local_id(0);
  // A round's loads precede its stores: the compiler must assume that logits and dlogits alias.
  for (; v + (AT_ONCE - 1) * GROUP < vocabulary; v += AT_ONCE * GROUP) {
    float x[AT_ONCE];
    for (int i = 0; i < AT_ONCE; ++i) x[i] = element_at(row, v + i * GROUP);
    for (int i = 0; i < AT_ONCE; ++i) {
      const int at = v + i * GROUP;
      STORE_ONE(X_TYPE, drow, at,
                dlogit(x[i], max_logit, inverse, at == target, labelled, weight[0]));
    }
  }
  for (; v < vocabulary; v += GROUP) {
    const float logit = element_at(row, v);
    STORE_ONE(X_TYPE, drow, v,
              dlogit(logit, max_logit, inverse, v == target, labelled, weight[0]));
  }
}

__attribute__((reqd_work_group_size(GROUP, 1, 1)))
__kernel void sum_in_order(__global float* sum, __global const float* x, long count,
                           int accumulate) {
  __local float2 scratch[GROUP];
  float part = 0.0f;
  float lost = 0.0f;
  long i = (long)get_local_id(0);
  for (; i + (AT_ONCE - 1) * GROUP < count; i += AT_ONCE * GROUP) {
    float terms[AT_ONCE];
    for (int k = 0; k < AT_ONCE; ++k) terms[k] = x[i + k * GROUP];
    for (int k = 0; k < AT_ONCE; ++k) add_compensated(&part, &lost, terms[k]);
  }
  for (; i < count; i += GROUP) add_compensated(&part, &lost, x[i]);
  const float all = group_sum_compensated(part, lost, scratch);
  if (get_local_id(0) == 0) sum[0] = accumulate ? sum[0] + all : all;
}
