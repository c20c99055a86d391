// cross_entropy: the loss of a language model over rows of logits, and its gradient.
//
//   max     = max_v logits[t, v]
//   loss[t] = log(sum_v exp(logits[t, v] - max)) + (max - logits[t, targets[t]])
//   dlogits[t, v] = (exp(logits[t, v] - max) / sum - (v == targets[t])) * weight[t * weight_step]
//   both 0 if targets[t] < 0; loss NaN and dlogits 0 if targets[t] >= V
//   -D SOFT_CAP: of capped logits; dlogits are those of the logits before it (soft_cap.clh)
//   -D LABEL_SMOOTHING, Z_LOSS: with these terms (loss_terms.clh), and nll[t] the loss without
//   them; of the gradient only
//   sum_in_order: sum = sum_i x[i] (+ sum); dot_in_order: sum += sum_i x[i] y[i]
//
// Shapes  logits, dlogits [T, V] (dlogits may be logits), loss, nll, targets [T], weight [1] or [T],
//         sum [1]
// Types   logits and dlogits of -D X_TYPE: f32, bf16 or f16; targets i32; all else f32
// Work    a group of GROUP items owns row get_group_id(0); item i owns columns i, i + GROUP, ...
//         sum_in_order, dot_in_order: one group owns everything
// Local   GROUP floats (sum_in_order, dot_in_order: 2 GROUP)
// Cost    a row: V reads for the sum and V for the gradient; V writes; 2 exp per element; V reads
//         more for label smoothing
// Numerics  exponentials are relative to the largest logit so far (row_sum_exp.clh); an item adds
//         its V / GROUP terms in order, then a tree follows. sum_in_order and dot_in_order
//         are compensated.
//! clc: build GROUP={256,1024} X_TYPE={f32,bf16,f16}
//! clc: build GROUP=256 X_TYPE=f32 SOFT_CAP=30.0f
//! clc: build GROUP=256 X_TYPE=f32 LABEL_SMOOTHING=0.1f Z_LOSS=1e-4f
//! clc: budget on gfx90a registers<=64 spills=0
#ifndef GROUP
#error "GROUP: work-items of a group, a power of two"
#endif

#include "elements.clh"
#include "group_reduce.clh"
#include "loss/loss_terms.clh"
#include "rowwise/row_sum_exp.clh"

float row_loss(__global const STORED(X_TYPE)* row, int vocabulary, int target, float max_logit, float sum) {
  if (target < 0) return 0.0f;
  if (target >= vocabulary) return NAN;
  return log(sum) + (max_logit - element_at(row, target));
}

// What the gradients of a row's logits have in common.
typedef struct {
  float max_logit, inverse_sum;  // times the factor of the softmax
  float target, uniform;         // factors (loss_terms.clh)
  float weight;
  bool labelled;
} Row;

// The gradient of a logit; 0 in an unlabelled row, whatever the logit.
float dlogit(Row row, float logit, bool is_target) {
  const float p = exp(logit - row.max_logit) * row.inverse_sum;
  float d = ((is_target ? p - row.target : p) - row.uniform) * row.weight;
  CAP_GRADIENTS(d, logit, 1.0f);
  return row.labelled ? d : 0.0f;
}

#ifdef LABEL_SMOOTHING
// The sum of max_logit - logit over the row, of the group.
float row_sum_below(__global const STORED(X_TYPE)* row, int vocabulary, float max_logit,
                    __local float* scratch) {
  float sum = 0.0f;
  for (int v = (int)get_local_id(0); v < vocabulary; v += GROUP) {
    sum += max_logit - element_at(row, v);
  }
  return group_sum(sum, scratch);
}
#endif

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
                                     int vocabulary, int weight_step
#ifdef LABEL_SMOOTHING
                                     , __global float* nll
#endif
) {
  __local float scratch[GROUP];
  const size_t t = get_group_id(0);
  const int target = targets[t];
  __global const STORED(X_TYPE)* row = logits + t * (size_t)vocabulary;
  __global STORED(X_TYPE)* drow = dlogits + t * (size_t)vocabulary;
  float max_logit;
  const float sum = row_sum_exp(row, vocabulary, &max_logit, scratch);
  const bool labelled = target >= 0 && target < vocabulary;
#ifdef LABEL_SMOOTHING
  const float below =
      LABEL_SMOOTHING > 0.0f ? row_sum_below(row, vocabulary, max_logit, scratch) : 0.0f;
  const float lse = log(sum) + max_logit;
  if (get_local_id(0) == 0) {
    const float found = row_loss(row, vocabulary, target, max_logit, sum);
    nll[t] = found;
    loss[t] = labelled ? loss_of_terms(found, lse, log(sum) + below / (float)vocabulary) : found;
  }
#else
  if (get_local_id(0) == 0) loss[t] = row_loss(row, vocabulary, target, max_logit, sum);
#endif
  barrier(CLK_GLOBAL_MEM_FENCE);  // the loss reads its logits before dlogits may overwrite them
  const Row of = {max_logit,
                  SOFTMAX_FACTOR(lse) / sum,
                  TARGET_FACTOR,
                  UNIFORM_FACTOR(vocabulary),
                  weight[t * (size_t)weight_step],
                  labelled};
  int v = (int)get_local_id(0);
  // A round's loads precede its stores: the compiler must assume that logits and dlogits alias.
  for (; v + (AT_ONCE - 1) * GROUP < vocabulary; v += AT_ONCE * GROUP) {
    float x[AT_ONCE];
    for (int i = 0; i < AT_ONCE; ++i) x[i] = element_at(row, v + i * GROUP);
    for (int i = 0; i < AT_ONCE; ++i) {
      const int at = v + i * GROUP;
      STORE_ONE(X_TYPE, drow, at, dlogit(of, x[i], at == target));
    }
  }
  for (; v < vocabulary; v += GROUP) {
    const float logit = element_at(row, v);
    STORE_ONE(X_TYPE, drow, v, dlogit(of, logit, v == target));
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

__attribute__((reqd_work_group_size(GROUP, 1, 1)))
__kernel void dot_in_order(__global float* sum, __global const float* x, __global const float* y,
                           long count) {
  __local float2 scratch[GROUP];
  float part = 0.0f;
  float lost = 0.0f;
  for (long i = (long)get_local_id(0); i < count; i += GROUP) {
    add_compensated(&part, &lost, x[i] * y[i]);
  }
  const float all = group_sum_compensated(part, lost, scratch);
  if (get_local_id(0) == 0) sum[0] += all;
}
