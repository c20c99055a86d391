// preference: losses of answers by their log-probabilities (DPO, IPO, ORPO, KTO), and the factors
// by which the gradients of their rows' losses are multiplied. With c = logps[2 p] - reference of a
// pair's preferred answer, r that of its rejected one, n their numbers of rows, and
// s(x) = 1 / (1 + exp(-x)):
//   answer_logps     logps[a] = -sum of loss[begin[a] .. end[a] - 1]
//   preference_loss  KIND_DPO   L = -(1 - e) log s(x) - e log s(-x), x = beta (c - r)
//                    KIND_IPO   L = (c / n_c - r / n_r - 1 / (2 beta))^2
//                    KIND_ORPO  L = -beta log s(log_odds(c / n_c) - log_odds(r / n_r)), without a
//                               reference; log_odds(m) = m - log(1 - exp(m))
//                    KIND_KTO   of each answer alone: L = desirable (1 - s(beta (c - kl))) where
//                               label is 1, else undesirable (1 - s(beta (kl - c)))
//                    sums += the losses, rewards, log-probabilities and counts (preference_sums.clh)
//                    factors[a] = -weight dL / d logps[a]
//                    row_factors[t] = factors[answer[t]], or 0 for none, + nll_weight if NLL and the
//                    row is not a rejected answer's
//   kl_sums          kl += the sum of logps - reference over the answers, and their number; the loss
//                    reads max(0, kl[0] / kl[1])
//   scale_rows       dx[t] *= row_factors[t]
//
// Shapes  loss, answer, row_factors [C]; begin, end, logps, reference, label, factors [C], of A answers, the
//         ranges of the others empty; weights [2]: weight, nll_weight; sums [13]; kl [2]; dx [C, D]
// Types   answer, begin, end, label i32; all else f32
// Work    answer_logps: a group owns an answer. preference_loss, kl_sums: one group; an item
//         owns every GROUP-th pair, answer or row. scale_rows: an item owns a column of a row
// Local   2 GROUP floats
// Cost    reads loss once; scale_rows reads and writes dx
// Numerics  all sums are compensated and in a fixed order. The exponent of log_odds is at most
//           -1e-7, so that a certain answer has a finite loss
//! clc: build GROUP=64 KIND={KIND_DPO,KIND_IPO,KIND_ORPO,KIND_KTO}
//! clc: build GROUP=64 KIND=KIND_ORPO NLL
//! clc: budget on gfx90a registers<=64 spills=0
#define KIND_DPO 0
#define KIND_IPO 1
#define KIND_ORPO 2
#define KIND_KTO 3
#ifndef KIND
#error "KIND: the loss"
#endif

#include "group_reduce.clh"
#include "loss/preference_sums.clh"

float sigmoid(float x) { return 1.0f / (1.0f + exp(-x)); }

// -log(sigmoid(x)), also of large |x|.
float softplus_of_minus(float x) { return log1p(exp(-fabs(x))) + fmax(-x, 0.0f); }

// log(1 - exp(m)) for m < 0.
float log1mexp(float m) { return m > -0.69f ? log(-expm1(m)) : log1p(-exp(m)); }

__attribute__((reqd_work_group_size(GROUP, 1, 1))) __kernel void answer_logps(
    __global float* logps, __global const float* loss, __global const int* begin,
    __global const int* end) {
  __local float2 scratch[GROUP];
  const size_t a = get_group_id(0);
  float sum = 0.0f, lost = 0.0f;
  for (int t = begin[a] + (int)get_local_id(0); t < end[a]; t += GROUP) {
    add_compensated(&sum, &lost, loss[t]);
  }
  sum = group_sum_compensated(sum, lost, scratch);
  if (get_local_id(0) == 0) logps[a] = -sum;
}

// A pair's preferred and rejected answer, or one answer alone: what its loss depends on.
struct Answers {
  float c, r;    // log-probabilities, less those of the reference
  float nc, nr;  // rows
};

// Returns the loss; slope_c and slope_r are its derivatives by c and r.
#if KIND == KIND_DPO
float loss_of(struct Answers a, float beta, float smoothing, float* slope_c, float* slope_r) {
  const float x = beta * (a.c - a.r);
  *slope_c = beta * (smoothing * sigmoid(x) - (1.0f - smoothing) * sigmoid(-x));
  *slope_r = -*slope_c;
  return (1.0f - smoothing) * softplus_of_minus(x) + smoothing * softplus_of_minus(-x);
}
#elif KIND == KIND_IPO
float loss_of(struct Answers a, float beta, float smoothing, float* slope_c, float* slope_r) {
  const float x = a.c / a.nc - a.r / a.nr - 0.5f / beta;
  *slope_c = 2.0f * x / a.nc;
  *slope_r = -2.0f * x / a.nr;
  return x * x;
}
#elif KIND == KIND_ORPO
float log_odds_of(struct Answers a) {
  const float c = fmin(a.c / a.nc, -1e-7f), r = fmin(a.r / a.nr, -1e-7f);
  return (c - r) - (log1mexp(c) - log1mexp(r));
}
float loss_of(struct Answers a, float beta, float smoothing, float* slope_c, float* slope_r) {
  const float c = fmin(a.c / a.nc, -1e-7f), r = fmin(a.r / a.nr, -1e-7f);
  const float x = log_odds_of(a), slope = beta * sigmoid(-x);
  *slope_c = slope / (a.nc * expm1(c));
  *slope_r = -slope / (a.nr * expm1(r));
  return beta * softplus_of_minus(x);
}
#endif

// Adds x to a sum of the group's items; item 0 writes it.
void add_to_sum(__global float* sum, float x, float lost, __local float2* scratch) {
  const float all = group_sum_compensated(x, lost, scratch);
  if (get_local_id(0) == 0) *sum += all;
}

__attribute__((reqd_work_group_size(GROUP, 1, 1))) __kernel void preference_loss(
    __global float* sums, __global float* row_factors, __global float* factors,
    __global const float* logps, __global const float* loss, __global const int* begin, __global const int* end,
    __global const int* answer, __global const float* reference, __global const int* label,
    __global const float* weights, __global const float* kl, float beta, float smoothing,
    float desirable, float undesirable, int C) {
  __local float2 scratch[GROUP];
  const int item = (int)get_local_id(0);
  float sum[PREFERENCE_SUMS], lost[PREFERENCE_SUMS];
  for (int i = 0; i < PREFERENCE_SUMS; ++i) sum[i] = lost[i] = 0.0f;
#define ADD(i, x) add_compensated(&sum[i], &lost[i], x)
  const float weight = weights[0];
#if KIND == KIND_KTO
  const float divergence = kl[1] > 0.0f ? fmax(kl[0] / kl[1], 0.0f) : 0.0f;
  for (int a = item; a < C; a += GROUP) {
    factors[a] = 0.0f;
    if (begin[a] >= end[a]) continue;
    const float ratio = logps[a] - reference[a], sign = label[a] != 0 ? 1.0f : -1.0f;
    const float scale = label[a] != 0 ? desirable : undesirable;
    const float p = sigmoid(sign * beta * (ratio - divergence));
    factors[a] = weight * scale * sign * beta * p * (1.0f - p);
    ADD(SUM_LOSS, scale * (1.0f - p));
    const int of = label[a] != 0 ? 0 : 1;
    ADD(SUM_CHOSEN_REWARD + of, beta * ratio);
    ADD(SUM_CHOSEN_LOGP + of, logps[a]);
    ADD(SUM_CHOSEN_COUNT + of, 1.0f);
  }
  if (item == 0) {
    ADD(SUM_KL, divergence);
    ADD(SUM_KL_COUNT, 1.0f);
  }
#else
  for (int p = item; 2 * p < C; p += GROUP) {
    const int a = 2 * p, b = 2 * p + 1;
    factors[a] = 0.0f;
    if (b >= C) continue;
    factors[b] = 0.0f;
    if (begin[a] >= end[a] || begin[b] >= end[b]) continue;
    struct Answers both = {logps[a], logps[b], (float)(end[a] - begin[a]),
                           (float)(end[b] - begin[b])};
#if KIND == KIND_ORPO
    ADD(SUM_LOG_ODDS_RATIO, -softplus_of_minus(log_odds_of(both)));
    ADD(SUM_LOG_ODDS, log_odds_of(both));
    const float logp_c = both.c / both.nc, logp_r = both.r / both.nr;
    const float reward_c = beta * logp_c, reward_r = beta * logp_r;
#else
    const float logp_c = both.c, logp_r = both.r;
    both.c -= reference[a];
    both.r -= reference[b];
    const float reward_c = beta * both.c, reward_r = beta * both.r;
#endif
    float slope_c, slope_r;
    ADD(SUM_LOSS, loss_of(both, beta, smoothing, &slope_c, &slope_r));
    factors[a] = -weight * slope_c;
    factors[b] = -weight * slope_r;
    ADD(SUM_CHOSEN_REWARD, reward_c);
    ADD(SUM_REJECTED_REWARD, reward_r);
    ADD(SUM_CHOSEN_LOGP, logp_c);
    ADD(SUM_REJECTED_LOGP, logp_r);
    ADD(SUM_WINS, reward_c > reward_r ? 1.0f : 0.0f);
    ADD(SUM_CHOSEN_COUNT, 1.0f);
    ADD(SUM_REJECTED_COUNT, 1.0f);
  }
#endif
#ifdef NLL
  for (int t = item; t < C; t += GROUP) {
    if (answer[t] < 0 || answer[t] % 2 == 0) ADD(SUM_NLL, loss[t]);
  }
#endif
  for (int i = 0; i < PREFERENCE_SUMS; ++i) add_to_sum(&sums[i], sum[i], lost[i], scratch);
  barrier(CLK_GLOBAL_MEM_FENCE);  // the factors of all answers are written
  for (int t = item; t < C; t += GROUP) {
    const int a = answer[t];
    float factor = a < 0 ? 0.0f : factors[a];
#ifdef NLL
    if (a < 0 || a % 2 == 0) factor += weights[1];
#endif
    row_factors[t] = factor;
  }
}

__attribute__((reqd_work_group_size(GROUP, 1, 1))) __kernel void kl_sums(
    __global float* kl, __global const float* logps, __global const int* begin,
    __global const int* end, __global const float* reference, int C) {
  __local float2 scratch[GROUP];
  float sum = 0.0f, lost = 0.0f, count = 0.0f;
  for (int a = (int)get_local_id(0); a < C; a += GROUP) {
    if (begin[a] >= end[a]) continue;
    add_compensated(&sum, &lost, logps[a] - reference[a]);
    count += 1.0f;
  }
  const float all = group_sum_compensated(sum, lost, scratch);
  const float answers = group_sum_compensated(count, 0.0f, scratch);
  if (get_local_id(0) == 0) {
    kl[0] += all;
    kl[1] += answers;
  }
}

__kernel void scale_rows(__global float* dx, __global const float* row_factors, uint C, uint D) {
  const uint d = (uint)get_global_id(0);
  if (d >= D) return;
  for (uint t = (uint)get_global_id(1); t < C; t += (uint)get_global_size(1)) {
    dx[(size_t)t * D + d] *= row_factors[t];
  }
}
