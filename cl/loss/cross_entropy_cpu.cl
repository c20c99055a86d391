// cross_entropy on CPU devices: the formulas of cross_entropy.cl in explicit float16 vectors.
//
//   loss[t] = log(sum_v exp(logits[t, v] - max)) + (max - logits[t, targets[t]]), max the row's
//   dlogits[t, v] = (exp(logits[t, v] - max) / sum - (v == targets[t])) * weight[t * weight_step]
//   both 0 if targets[t] < 0; loss NaN and dlogits 0 if targets[t] >= V
//   -D SOFT_CAP: of capped logits; dlogits are those of the logits before it (soft_cap.clh)
//   -D LABEL_SMOOTHING, Z_LOSS: with these terms (loss_terms.clh), and nll[t] the loss without
//   them; of the gradient only
//   sum_in_order: sum = sum_i x[i] (+ sum); dot_in_order: sum += sum_i x[i] y[i]
//
// Shapes  logits, dlogits [T, V] (dlogits may be logits), loss, nll, targets [T], weight [1] or [T],
//         sum [1]
// Types   f32; targets i32
// Work    a group is one item and owns a block of full rows; sum_in_order, dot_in_order: one group
// Local   none
// Cost    a row is read for the maximum, read and written with its exponentials, and read and
//         written with the gradient; memory is read once if a row fits in the L2 cache; 1 exp
//         per element. With SOFT_CAP exponentials are not written but computed twice. Label
//         smoothing reads the row once more.
// Numerics  the maximum is computed first; 64 partial sums of V / 64 terms each, added as a tree.
//         sum_in_order and dot_in_order are compensated.
//! clc: build on cpu:
//! clc: build on cpu: SOFT_CAP=30.0f
//! clc: build on cpu: LABEL_SMOOTHING=0.1f Z_LOSS=1e-4f
#include "compensated_sum.clh"
#include "loss/loss_terms.clh"
#include "rowwise/row_sum_exp_cpu.clh"

#define CPU_KERNEL __attribute__((reqd_work_group_size(1, 1, 1))) __kernel void

// As row_sum_exp, and writes each exponential to out, which may alias row.
float row_sum_exp_keep(__global float* out, __global const float* row,
                       int vocabulary, float max_logit) {
  float16 sums[4] = {0.0f, 0.0f, 0.0f, 0.0f};
  int v = 0;
  for (; v + 64 <= vocabulary; v += 64) {
    for (int part = 0; part < 4; ++part) {
      const float16 e = exp16(vload16(part, row + v) - max_logit);
      vstore16(e, part, out + v);
      sums[part] += e;
    }
  }
  for (; v + 16 <= vocabulary; v += 16) {
    const float16 e = exp16(vload16(0, row + v) - max_logit);
    vstore16(e, 0, out + v);
    sums[0] += e;
  }
  if (v < vocabulary) {
    const float16 e = exp16(load16_tail(row + v, vocabulary - v, -INFINITY) - max_logit);
    store16_tail(e, out + v, vocabulary - v);
    sums[1] += e;
  }
  return sum16((sums[0] + sums[1]) + (sums[2] + sums[3]));
}

// The capped logit, if there is a cap.
float capped(float logit) {
  float16 x = logit;
  CAP_SCORES(x, 1.0f);
  return x.s0;
}

#ifdef LABEL_SMOOTHING
// The sum of max_logit - logit over the row.
float row_sum_below(__global const float* row, int vocabulary, float max_logit) {
  float16 sums = 0.0f;
  int v = 0;
  for (; v + 16 <= vocabulary; v += 16) sums += max_logit - elements16(row + v);
  float sum = sum16(sums);
  for (; v < vocabulary; ++v) sum += max_logit - capped(row[v]);
  return sum;
}
#endif

#ifdef SOFT_CAP
// drow = exp(capped - max_logit) * factor - shift, times the slope of the cap; drow may alias row.
void write_gradients(__global float* drow, __global const float* row, int vocabulary,
                     float max_logit, float factor, float shift) {
  for (int v = 0; v < vocabulary; v += 16) {
    const int count = min(16, vocabulary - v);
    const float16 x = count == 16 ? elements16(row + v) : elements16_tail(row + v, count);
    float16 d = exp16(x - max_logit) * factor - shift;
    CAP_GRADIENTS(d, x, 1.0f);
    if (count == 16) {
      vstore16(d, 0, drow + v);
    } else {
      store16_tail(d, drow + v, count);
    }
  }
}
#endif

// row = row * factor - shift.
void scale_row(__global float* row, int vocabulary, float factor, float shift) {
  int v = 0;
  for (; v + 16 <= vocabulary; v += 16) {
    vstore16(vload16(0, row + v) * factor - shift, 0, row + v);
  }
  for (; v < vocabulary; ++v) row[v] = row[v] * factor - shift;
}

void zero_row(__global float* row, int vocabulary) {
  int v = 0;
  for (; v + 16 <= vocabulary; v += 16) vstore16((float16)(0.0f), 0, row + v);
  for (; v < vocabulary; ++v) row[v] = 0.0f;
}

CPU_KERNEL cross_entropy_loss(__global float* loss, __global const float* logits,
                              __global const int* targets, int vocabulary, long rows) {
  const long begin = rows * (long)get_group_id(0) / (long)get_num_groups(0);
  const long end = rows * (long)(get_group_id(0) + 1) / (long)get_num_groups(0);
  for (long t = begin; t < end; ++t) {
    const int target = targets[t];
    __global const float* row = logits + t * vocabulary;
    if (target < 0 || target >= vocabulary) {
      loss[t] = target < 0 ? 0.0f : NAN;
      continue;
    }
    const float max_logit = capped(row_max(row, vocabulary));
    loss[t] = log(row_sum_exp(row, vocabulary, max_logit)) + (max_logit - capped(row[target]));
  }
}

CPU_KERNEL cross_entropy_gradient(__global float* loss, __global float* dlogits,
                                  __global const float* logits, __global const int* targets,
                                  __global const float* weight, int vocabulary, int weight_step,
#ifdef LABEL_SMOOTHING
                                  __global float* nll,
#endif
                                  long rows) {
  const long begin = rows * (long)get_group_id(0) / (long)get_num_groups(0);
  const long end = rows * (long)(get_group_id(0) + 1) / (long)get_num_groups(0);
  for (long t = begin; t < end; ++t) {
    const int target = targets[t];
    __global const float* row = logits + t * vocabulary;
    __global float* drow = dlogits + t * vocabulary;
    if (target < 0 || target >= vocabulary) {
      loss[t] = target < 0 ? 0.0f : NAN;
#ifdef LABEL_SMOOTHING
      nll[t] = loss[t];
#endif
      zero_row(drow, vocabulary);
      continue;
    }
    const float max_logit = capped(row_max(row, vocabulary));
    const float of_target = capped(row[target]);
    const float below = max_logit - of_target, w = weight[t * weight_step];
    const float shift = UNIFORM_FACTOR(vocabulary) * w;
#ifdef LABEL_SMOOTHING
    const float sum_below =
        LABEL_SMOOTHING > 0.0f ? row_sum_below(row, vocabulary, max_logit) : 0.0f;
#endif
#ifdef SOFT_CAP
    const float sum = row_sum_exp(row, vocabulary, max_logit);
#else
    const float sum = row_sum_exp_keep(drow, row, vocabulary, max_logit);
#endif
    loss[t] = log(sum) + below;
#ifdef LABEL_SMOOTHING
    const float lse = log(sum) + max_logit;
    nll[t] = loss[t];
    loss[t] = loss_of_terms(nll[t], lse, log(sum) + sum_below / (float)vocabulary);
#endif
#ifdef SOFT_CAP
    write_gradients(drow, row, vocabulary, max_logit, SOFTMAX_FACTOR(lse) * w / sum, shift);
    float of_one = TARGET_FACTOR * w;
    CAP_GRADIENTS(of_one, of_target, 1.0f);
    drow[target] -= of_one;
#else
    const float inverse = SOFTMAX_FACTOR(lse) / sum;
    const float p = drow[target] * inverse;
    scale_row(drow, vocabulary, inverse * w, shift);
    drow[target] = (p - TARGET_FACTOR) * w - shift;
#endif
  }
}

CPU_KERNEL sum_in_order(__global float* sum, __global const float* x, long count,
                        int accumulate) {
  float16 part = 0.0f;
  float16 lost = 0.0f;
  long i = 0;
  for (; i + 16 <= count; i += 16) add_compensated16(&part, &lost, vload16(0, x + i));
  if (i < count) add_compensated16(&part, &lost, load16_tail(x + i, (int)(count - i), 0.0f));
  const float all = collapse_compensated16(part, lost);
  sum[0] = accumulate ? sum[0] + all : all;
}

CPU_KERNEL dot_in_order(__global float* sum, __global const float* x, __global const float* y,
                        long count) {
  float16 part = 0.0f;
  float16 lost = 0.0f;
  long i = 0;
  for (; i + 16 <= count; i += 16) {
    add_compensated16(&part, &lost, vload16(0, x + i) * vload16(0, y + i));
  }
  if (i < count) {
    const int left = (int)(count - i);
    add_compensated16(&part, &lost,
                      load16_tail(x + i, left, 0.0f) * load16_tail(y + i, left, 0.0f));
  }
  sum[0] += collapse_compensated16(part, lost);
}
