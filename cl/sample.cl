// sample: the next token from logits; log-probabilities of a token and of the likeliest ones.
//
//   z = logits; if seen[v]: z / penalty for z > 0, z * penalty otherwise
//   temperature <= 0: the token of the largest z, the lowest id among equals; else
//   w = exp((z - max z) / temperature), filtered by top-k, top-p, min-p (sample_filters.clh), and
//   the first token at which the running sum of w passes uniform * sum, uniform from Philox2x32 of
//   key seed and counter (step, 0)
//   logprob = (logits[token] - max) - log(sum_v exp(logits[v] - max))
//
// Shapes  logits, weights, seen [V], token, logprob [1], settings [8], top_ids, top_logprobs [K]
// Types   logits, weights, log-probabilities f32; token, top_ids i32; seen u8; settings u32
// Work    one group of GROUP items; item i owns ids i, i + GROUP, ... in every pass, so passes need
//         no fence for global memory
// Local   2 GROUP words for peaks and tallies; sample_logprobs: GROUP more floats
// Cost    greedy: V reads (penalty: 2 V more and V writes); else one pass for the weights, up to 30
//         per filter, up to 18 for the draw; logprobs: 2 + K passes
// Numerics  weights are rounded to f32 before they are ranked. If any z is NaN or infinite, the
//         token is -1. sample_logprobs never lists such logits.
//! clc: build GROUP=64
//! clc: budget on gfx90a registers<=48 spills=0
#ifndef GROUP
#error "GROUP: work-items of the group, a power of two"
#endif

#include "philox.clh"
#define X_TYPE f32  // of logits
#include "rowwise/row_sum_exp.clh"
#include "sample_settings.clh"

typedef struct {
  float value;
  int id;
} Peak;

// Whether a ranks before b: the larger value first, the lower id first among equals.
bool ranks_before(Peak a, Peak b) {
  return a.value > b.value || (a.value == b.value && a.id < b.id);
}

// BEFORE_ALL ranks before all tokens. NOT_FINITE stands for a value that is not finite; it ranks
// before every token, so that the pass that finds the largest value also finds it.
#define BEFORE_ALL ((Peak){INFINITY, -2})
#define NOT_FINITE ((Peak){INFINITY, -1})

// The token that ranks next after `last`. After BEFORE_ALL: the first of all, or NOT_FINITE if any
// value is not finite. After NOT_FINITE: the first finite one. scratch: GROUP elements.
Peak peak_after(__global const float* values, int vocabulary, Peak last,
                __local int2* scratch) {
  const int item = (int)get_local_id(0);
  Peak best = {-INFINITY, vocabulary};
#pragma unroll 8
  for (int v = item; v < vocabulary; v += GROUP) {
    const Peak finite = {values[v], v};
    const Peak here = isfinite(finite.value) ? finite : NOT_FINITE;
    if (ranks_before(last, here) && ranks_before(here, best)) best = here;
  }
  barrier(CLK_LOCAL_MEM_FENCE);  // the last result has been read
  scratch[item] = (int2)(as_int(best.value), best.id);
  for (int half_size = GROUP / 2; half_size > 0; half_size /= 2) {
    barrier(CLK_LOCAL_MEM_FENCE);  // the level below is written
    if (item < half_size) {
      const Peak mine = {as_float(scratch[item].x), scratch[item].y};
      const Peak other = {as_float(scratch[item + half_size].x), scratch[item + half_size].y};
      if (ranks_before(other, mine)) scratch[item] = scratch[item + half_size];
    }
  }
  barrier(CLK_LOCAL_MEM_FENCE);  // scratch[0] is the peak
  best.value = as_float(scratch[0].x);
  best.id = scratch[0].y;
  if (best.id == vocabulary) best.id = 0;  // no finite value is left
  return best;
}

typedef struct {
  __global float* weights;
  int vocabulary;
  __local int2* scratch;
} Field;

Tally tally(Field field, Cut cut, int id_end) {
  const int item = (int)get_local_id(0);
  int count = 0;
  float mass = 0.0f;
#pragma unroll 8
  for (int v = item; v < id_end; v += GROUP) {
    const float w = field.weights[v];
    const int bits = as_int(w);
    const bool inside = w > 0.0f && (bits > cut.bits || (bits == cut.bits && v < cut.id_end));
    count += inside ? 1 : 0;
    mass += inside ? w : 0.0f;
  }
  barrier(CLK_LOCAL_MEM_FENCE);  // the last result has been read
  field.scratch[item] = (int2)(count, as_int(mass));
  for (int half_size = GROUP / 2; half_size > 0; half_size /= 2) {
    barrier(CLK_LOCAL_MEM_FENCE);  // the level below is written
    if (item < half_size) {
      const int2 other = field.scratch[item + half_size];
      count += other.x;
      mass += as_float(other.y);
      field.scratch[item] = (int2)(count, as_int(mass));
    }
  }
  barrier(CLK_LOCAL_MEM_FENCE);  // scratch[0] is the tally
  const Tally all = {field.scratch[0].x, as_float(field.scratch[0].y)};
  return all;
}

void keep_only(Field field, Cut cut) {
  for (int v = (int)get_local_id(0); v < field.vocabulary; v += GROUP) {
    const int bits = as_int(field.weights[v]);
    const bool kept = bits > cut.bits || (bits == cut.bits && v < cut.id_end);
    if (!kept) field.weights[v] = 0.0f;
  }
}

#include "sample_filters.clh"

__attribute__((reqd_work_group_size(GROUP, 1, 1)))
__kernel void sample(__global int* token, __global uchar* seen, __global uint* setting_words,
                     __global float* weights, __global const float* logits, int vocabulary) {
  __local int2 scratch[GROUP];
  const int item = (int)get_local_id(0);
  const SampleSettings settings = read_settings(setting_words);
  __global const float* z = logits;
  if (settings.penalty != 1.0f) {
    for (int v = item; v < vocabulary; v += GROUP) {
      const float x = logits[v];
      const float penalised = x > 0.0f ? x / settings.penalty : x * settings.penalty;
      weights[v] = seen[v] ? penalised : x;
    }
    z = weights;
  }
  const Peak peak = peak_after(z, vocabulary, BEFORE_ALL, scratch);
  if (settings.temperature > 0.0f) {
    for (int v = item; v < vocabulary; v += GROUP) {
      const float w = exp((z[v] - peak.value) / settings.temperature);
      weights[v] = w >= 0.0f ? fmin(w, 1.0f) : 0.0f;  // NaN becomes 0
    }
  }
  const uint2 random = philox2x32((uint2)(settings.step, 0u), settings.seed);
  const Field field = {weights, vocabulary, scratch};
  const int drawn = choose(field, settings, uniform_of(random.x), peak.id);
  const int chosen = peak.id < 0 ? -1 : drawn;
  barrier(CLK_GLOBAL_MEM_FENCE);  // every item has read settings and seen
  if (item == 0) {
    token[0] = chosen;
    if (chosen >= 0) seen[chosen] = 1;
    setting_words[STEP_WORD] = settings.step + 1u;
  }
}

__attribute__((reqd_work_group_size(GROUP, 1, 1)))
__kernel void sample_logprobs(__global float* logprob, __global int* top_ids,
                              __global float* top_logprobs, __global const float* logits,
                              __global const int* token, int vocabulary, int top_count) {
  __local int2 scratch[GROUP];
  __local float sums[GROUP];
  float max_logit;
  const float log_sum = log(row_sum_exp(logits, vocabulary, &max_logit, sums));
  const int id = token[0];
  const bool exists = id >= 0 && id < vocabulary;
  const bool writes = get_local_id(0) == 0;
  if (writes) logprob[0] = exists ? (logits[id] - max_logit) - log_sum : NAN;
  Peak peak = NOT_FINITE;
  for (int k = 0; k < top_count; ++k) {
    peak = peak_after(logits, vocabulary, peak, scratch);
    if (writes) {
      top_ids[k] = peak.id;
      top_logprobs[k] = (peak.value - max_logit) - log_sum;
    }
  }
}
