// cross_entropy_head: the kernels before and after the products of the fused head and loss
// (cross_entropy_head_wgmma.cl), for logits z times log2(e).
//
//   head_references  target_logits[t] = references[t] = x[t] . w[targets[t]]; NO_ROW and 0 if
//                    targets[t] is not a row of w
//                    -D SMOOTHED: mean_logits[t] = x[t] . mean, in natural units
//   head_sums        sums[p, d] = sum of w[v, d] over the v of slice p, of slice_rows rows
//   head_mean        mean[d] = sum_p sums[p, d] / V
//   head_loss        loss[t] = log(sum_v 2^z[t, v]) - target_logits[t] / log2(e)
//                    dx[t] = (sum_i products[i, t] / sum_v 2^(z[t, v] - R) - w[targets[t]])
//                    weight[t * weight_step]; R is the largest reference of the row's parts; only
//                    the loss without -D GRADIENT
//                    both 0 if targets[t] < 0; loss NaN and dx 0 if targets[t] >= V
//   -D SOFT_CAP: z are capped, and products those of 2^z times the slopes of the cap (soft_cap.clh);
//                    w[targets[t]] is multiplied by the slope of its logit
//   -D LABEL_SMOOTHING, Z_LOSS: with these terms (loss_terms.clh), and nll[t] the loss without them;
//                    only with GRADIENT. LABEL_SMOOTHING above 0 needs SMOOTHED, which is not
//                    implemented with SOFT_CAP: without a cap the mean of a row's logits is
//                    x[t] . mean, and the gradient of it is mean
// Shapes  x [T, stride], w [V, D], targets, loss, nll [T], weight [1] or [T], parts [P, T], dx
//         [T, D], products [splits, split_rows, D], or dx itself; mean_logits [T], mean [D], sums
//         [slices, D]
// Types   x bf16; w in any storage type (quant.clh), rounded to bf16 as in the products; targets
//         i32; parts float2: a sum of 2^(z - reference), and its reference; all else f32
// Work    head_references: a group owns a row, item i its columns i, i + GROUP, ...
//         head_sums: an item owns a column of a slice; head_mean: of the mean
//         head_loss: a group owns ROWS rows; GROUP / ROWS items add the parts of a row, then all
//         items process the rows' columns, four at a time if D is a multiple of 4
// Local   GROUP floats; 2 GROUP + 2 ROWS floats
// Cost    reads x and w[targets]; reads parts, dx and w[targets], writes dx; head_sums reads w
// Numerics  sums in a fixed order
//! clc: build GROUP=256 WEIGHT_TYPE={WEIGHT_F32,WEIGHT_BF16}
//! clc: build GROUP=256 WEIGHT_TYPE={WEIGHT_F32,WEIGHT_BF16} GRADIENT
//! clc: build GROUP=256 WEIGHT_TYPE=WEIGHT_BF16 GRADIENT SOFT_CAP=30.0f
//! clc: build GROUP=256 WEIGHT_TYPE=WEIGHT_BF16 GRADIENT LABEL_SMOOTHING=0.0f Z_LOSS=1e-4f
//! clc: build GROUP=256 WEIGHT_TYPE=WEIGHT_BF16 GRADIENT LABEL_SMOOTHING=0.1f Z_LOSS=1e-4f SMOOTHED
//! clc: budget on gfx90a registers<=112 spills=0
#include "bf16_values.clh"
#include "group_reduce.clh"
#include "loss/cross_entropy_head_sums.clh"
#include "loss/loss_terms.clh"
#include "quant/quant.clh"
#include "soft_cap.clh"

#define LOG2E 1.44269504f
#define LN2 0.693147181f
#define NO_ROW 3e38f
#define ROWS 8
#define SHARES (GROUP / ROWS)
#if SHARES < 1
#error "GROUP: at least ROWS work-items"
#endif
#if defined(SMOOTHED) && defined(SOFT_CAP)
#error "SMOOTHED: the mean of capped logits is not that of a product"
#endif

#ifdef SOFT_CAP
float slope_of(float capped) {
  float slope = 1.0f;
  CAP_GRADIENTS(slope, capped, LN2);
  return slope;
}
#define OF_SLOPE(w) (slope_of(target_logits[first + r]) * (w))
#else
#define OF_SLOPE(w) (w)
#endif
#ifdef SMOOTHED
#define MEAN_LOGIT(t) mean_logits[t]
#define OF_TARGET(w) (TARGET_FACTOR * OF_SLOPE(w))
#define OF_MEAN(w) (LABEL_SMOOTHING * (w))
#else
#define MEAN_LOGIT(t) 0.0f
#define OF_TARGET(w) OF_SLOPE(w)
#define OF_MEAN(w) 0.0f
#endif

float bf16_weight(__global const uchar* row, uint d) {
  return float_of_bf16(bf16_of(weight_at(row, d)));
}
// Four weights from d on; d and D are multiples of 4.
float4 bf16_weights(__global const uchar* row, uint d) {
#if WEIGHT_TYPE == WEIGHT_BF16
  return as_float4(convert_uint4(*(__global const ushort4*)((__global const ushort*)row + d))
                   << 16);
#else
  return (float4)(bf16_weight(row, d), bf16_weight(row, d + 1), bf16_weight(row, d + 2),
                  bf16_weight(row, d + 3));
#endif
}

__attribute__((reqd_work_group_size(GROUP, 1, 1))) __kernel void head_references(
    __global float* target_logits, __global float* references, __global const ushort* x,
    __global const uchar* w, __global const int* targets, uint V, uint D, uint stride
#ifdef SMOOTHED
    , __global float* mean_logits, __global const float* mean
#endif
) {
  __local float scratch[GROUP];
  const size_t t = get_group_id(0);
  const uint target = (uint)targets[t];  // a negative one wraps to a large one
  const bool labelled = target < V;
  __global const uchar* row = weight_row(w, labelled ? target : 0, D);
  float part = 0;
  for (uint d = get_local_id(0); d < D; d += GROUP) {
    part += float_of_bf16(x[t * stride + d]) * bf16_weight(row, d);
  }
  float logit = group_sum(part, scratch) * LOG2E;
  CAP_SCORES(logit, LN2);
#ifdef SMOOTHED
  float mean_part = 0;
  for (uint d = get_local_id(0); d < D; d += GROUP) {
    mean_part += float_of_bf16(x[t * stride + d]) * mean[d];
  }
  const float mean_logit = group_sum(mean_part, scratch);
  if (get_local_id(0) == 0) mean_logits[t] = mean_logit;
#endif
  if (get_local_id(0) != 0) return;
  target_logits[t] = labelled ? logit : 0;
  references[t] = labelled ? logit : NO_ROW;
}

__kernel void head_sums(__global float* sums, __global const uchar* w, uint V, uint D,
                        uint slice_rows) {
  const uint d = get_global_id(0), p = get_global_id(1);
  if (d >= D) return;
  const uint end = min(V, (p + 1) * slice_rows);
  float sum = 0;
  for (uint v = p * slice_rows; v < end; ++v) sum += bf16_weight(weight_row(w, v, D), d);
  sums[(size_t)p * D + d] = sum;
}

__kernel void head_mean(__global float* mean, __global const float* sums, uint slices, uint V,
                        uint D) {
  const uint d = get_global_id(0);
  if (d >= D) return;
  float sum = 0;
  for (uint p = 0; p < slices; ++p) sum += sums[(size_t)p * D + d];
  mean[d] = sum / (float)V;
}

__attribute__((reqd_work_group_size(GROUP, 1, 1))) __kernel void head_loss(
    __global float* loss, __global float* dx, __global const float* products,
    __global const float2* parts, __global const float* target_logits, __global const uchar* w,
    __global const int* targets, __global const float* weight, uint T, uint V, uint D, uint P,
    uint splits, uint split_rows, uint weight_step
#ifdef LABEL_SMOOTHING
    , __global float* nll
#endif
#ifdef SMOOTHED
    , __global const float* mean_logits, __global const float* mean
#endif
) {
  __local float2 shares[GROUP];
  __local float inverse[ROWS];
  const uint item = get_local_id(0), share = item / ROWS, first = get_group_id(0) * ROWS;
  const uint t = first + item % ROWS;
  if (item < ROWS * SHARES) {
    float2 sum = (float2)(0, -3e38f);
    for (uint p = share; p < P && t < T; p += SHARES) sum = joined(sum, parts[(size_t)p * T + t]);
    shares[item] = sum;
  }
  barrier(CLK_LOCAL_MEM_FENCE);  // the partial sums of each row are written
  if (share == 0 && t < T) {
    float2 sum = shares[item];
    for (uint i = 1; i < SHARES; ++i) sum = joined(sum, shares[item + i * ROWS]);
    const int target = targets[t];
    const float found = log(sum.x) + (sum.y - target_logits[t]) * LN2;
    const float plain = target < 0 ? 0.0f : (uint)target < V ? found : NAN;
#ifdef LABEL_SMOOTHING
    const float lse = log(sum.x) + sum.y * LN2;
    nll[t] = plain;
    loss[t] = (uint)target < V ? loss_of_terms(found, lse, lse - MEAN_LOGIT(t)) : plain;
#else
    loss[t] = plain;
#endif
    inverse[item] = SOFTMAX_FACTOR(lse) / sum.x;
  }
#ifdef GRADIENT
  barrier(CLK_LOCAL_MEM_FENCE);  // the factors of the rows are written
  const uint step = D % 4 == 0 ? 4 : 1, steps = D / step;
  for (uint i = item; i < steps * min((uint)ROWS, T - first); i += GROUP) {
    const uint r = i / steps, d = i % steps * step;
    const float row_weight = weight[(size_t)(first + r) * weight_step];
    const uint target = (uint)targets[first + r];
    __global const uchar* w_row = weight_row(w, target < V ? target : 0, D);
    const size_t at = (size_t)(first + r) * D + d, split = (size_t)split_rows * D;
    if (step == 1) {
      float sum = products[at];
      for (uint k = 1; k < splits; ++k) sum += products[at + k * split];
      const float gradient = (sum * inverse[r] - OF_TARGET(bf16_weight(w_row, d)) - OF_MEAN(mean[d])) * row_weight;
      dx[at] = target < V ? gradient : 0.0f;
    } else {
      float4 sum = *(__global const float4*)(products + at);
      for (uint k = 1; k < splits; ++k) sum += *(__global const float4*)(products + at + k * split);
      const float4 gradients = (sum * inverse[r] - OF_TARGET(bf16_weights(w_row, d)) -
                                OF_MEAN(*(__global const float4*)(mean + d))) *
                               row_weight;
      *(__global float4*)(dx + at) = target < V ? gradients : (float4)(0.0f);
    }
  }
#endif
}
