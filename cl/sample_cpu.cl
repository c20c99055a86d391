// sample on CPU devices: the formulas of sample.cl in one group of one item, with explicit float16
// vectors.
//
//   z = logits; if seen[v]: z / penalty for z > 0, z * penalty otherwise
//   temperature <= 0: the token of the largest z, the lowest id among equals; else
//   w = exp((z - max z) / temperature), filtered by top-k, top-p, min-p (sample_filters.clh), and
//   the first token at which the running sum of w passes uniform * sum
//   logprob = (logits[token] - max) - log(sum_v exp(logits[v] - max))
//
// Shapes  logits, seen [V], weights [V rounded up to a multiple of 64], token, logprob [1],
//         settings [8], top_ids, top_logprobs [K]
// Types   logits, weights, log-probabilities f32; token, top_ids i32; seen u8; settings u32
// Work    one group of one item does everything: a pass over a vocabulary in cache takes a few us,
//         less than waking a second core
// Local   none
// Cost    greedy: 2 V reads (penalty: 2 V more and V writes); else one pass for the weights, up to
//         30 per filter, up to 18 for the draw, all in cache; logprobs: 2 + K passes
// Numerics  as sample.cl; sums in 64 lanes, so equal seeds may draw other tokens than there if the
//         draw falls on a boundary.
//! clc: build on cpu:
#include "float16_math.clh"
#include "philox.clh"
#include "rowwise/row_sum_exp_cpu.clh"
#include "sample_settings.clh"

#define CPU_KERNEL __attribute__((reqd_work_group_size(1, 1, 1))) __kernel void
#define LANES ((int16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15))

// The 16 values from v on; lanes beyond the vocabulary are -INFINITY.
float16 load16_logits(__global const float* values, int v, int vocabulary) {
  return v + 16 <= vocabulary ? vload16(0, values + v)
                              : load16_tail(values + v, vocabulary - v, -INFINITY);
}

typedef struct {
  float value;
  int id;
} Peak;

// The token that ranks next after `last`, the larger value first, the lower id first among equals.
// After {INFINITY, -1}: the first of all.
Peak peak_after(__global const float* values, int vocabulary, Peak last) {
  float16 best = -INFINITY;
  int16 best_id = vocabulary;
  int16 id = LANES;
  for (int v = 0; v < vocabulary; v += 16, id += 16) {
    const float16 x = load16_logits(values, v, vocabulary);
    const int16 ranks_after = (x < last.value) | ((x == last.value) & (id > last.id));
    // Ids increase within a lane, so the first of equals stays. A lane's first -INFINITY also
    // counts.
    const int16 better = ranks_after & ((x > best) | ((x == best) & (best_id == vocabulary)));
    best = better ? x : best;
    best_id = better ? id : best_id;
  }
  const float value = max16(best);
  const int16 candidates = best == value ? best_id : (int16)(vocabulary);
  int ids[16];
  vstore16(candidates, 0, ids);
  int first = vocabulary;
  for (int lane = 0; lane < 16; ++lane) first = min(first, ids[lane]);
  const Peak peak = {value, first < vocabulary ? first : 0};  // 0 if all values are NaN
  return peak;
}

// A finite value minus itself is 0; for any other value the difference is NaN.
bool all_finite(__global const float* values, int vocabulary) {
  float16 a = 0.0f, b = 0.0f;
  int v = 0;
  for (; v + 32 <= vocabulary; v += 32) {
    const float16 x = vload16(0, values + v), y = vload16(1, values + v);
    a += x - x;
    b += y - y;
  }
  float rest = 0.0f;
  for (; v < vocabulary; ++v) rest += values[v] - values[v];
  return sum16(a + b) + rest == 0.0f;
}

typedef struct {
  __global float* weights;
  int vocabulary;
} Field;

int sum16_int(int16 v) {
  const int8 a = v.lo + v.hi;
  const int4 b = a.lo + a.hi;
  return b.x + b.y + b.z + b.w;
}

// Tallies the weights that are positive, kept by `cut` and in a set lane of `among`, out of the 16
// from v + 16 * part on.
#define TALLY16(part, among, masses)                                                            \
  {                                                                                             \
    const float16 w_ = vload16(part, field.weights + v);                                        \
    const int16 bits_ = as_int16(w_);                                                           \
    const int16 kept_ = (bits_ > cut.bits) |                                                    \
                        ((bits_ == cut.bits) & (LANES + (v + 16 * part) < cut.id_end));         \
    const int16 in_ = kept_ & (bits_ > 0) & (among);                                            \
    counts -= in_;                                                                              \
    masses += in_ ? w_ : (float16)(0.0f);                                                       \
  }

Tally tally(Field field, Cut cut, int id_end) {
  int16 counts = 0;
  float16 a = 0.0f, b = 0.0f, c = 0.0f, d = 0.0f;
  int v = 0;
  for (; v + 64 <= id_end; v += 64) {
    TALLY16(0, -1, a);
    TALLY16(1, -1, b);
    TALLY16(2, -1, c);
    TALLY16(3, -1, d);
  }
  if (v < id_end) {  // the same lanes as above, so that the order does not depend on id_end
    const int16 left = id_end - v - LANES;
    TALLY16(0, left > 0, a);
    TALLY16(1, left > 16, b);
    TALLY16(2, left > 32, c);
    TALLY16(3, left > 48, d);
  }
  const Tally all = {sum16_int(counts), sum16((a + b) + (c + d))};
  return all;
}

void keep_only(Field field, Cut cut) {
  int16 id = LANES;
  for (int v = 0; v < field.vocabulary; v += 16, id += 16) {
    const float16 w = vload16(0, field.weights + v);
    const int16 bits = as_int16(w);
    const int16 kept = (bits > cut.bits) | ((bits == cut.bits) & (id < cut.id_end));
    vstore16(kept ? w : (float16)(0.0f), 0, field.weights + v);
  }
}

#include "sample_filters.clh"

// weights = logits with the penalty on seen tokens.
void penalise(__global float* weights, __global const float* logits, __global const uchar* seen,
              int vocabulary, float penalty) {
  int v = 0;
  for (; v + 16 <= vocabulary; v += 16) {
    const float16 x = vload16(0, logits + v);
    const float16 penalised = x > 0.0f ? x / penalty : x * penalty;
    vstore16(convert_int16(vload16(0, seen + v)) != 0 ? penalised : x, 0, weights + v);
  }
  for (; v < vocabulary; ++v) {
    const float x = logits[v];
    const float penalised = x > 0.0f ? x / penalty : x * penalty;
    weights[v] = seen[v] ? penalised : x;
  }
}

// weights = exp((z - max_z) / temperature), 0 beyond the vocabulary. z may alias weights.
void weigh(__global float* weights, __global const float* z, int vocabulary, float max_z,
           float temperature) {
  int v = 0;
  for (; v < vocabulary; v += 16) {
    const float16 w = exp16((load16_logits(z, v, vocabulary) - max_z) / temperature);
    vstore16(w >= 0.0f ? w : (float16)(0.0f), 0, weights + v);  // NaN becomes 0
  }
  for (; v % 64 != 0; v += 16) vstore16((float16)(0.0f), 0, weights + v);
}

CPU_KERNEL sample(__global int* token, __global uchar* seen, __global uint* setting_words,
                  __global float* weights, __global const float* logits, int vocabulary) {
  const SampleSettings settings = read_settings(setting_words);
  __global const float* z = logits;
  if (settings.penalty != 1.0f) {
    penalise(weights, logits, seen, vocabulary, settings.penalty);
    z = weights;
  }
  const Peak before_all = {INFINITY, -1};
  const Peak peak = peak_after(z, vocabulary, before_all);
  const bool usable = all_finite(z, vocabulary);
  if (settings.temperature > 0.0f) {
    weigh(weights, z, vocabulary, peak.value, settings.temperature);
  }
  const uint2 random = philox2x32((uint2)(settings.step, 0u), settings.seed);
  const Field field = {weights, vocabulary};
  const int drawn = choose(field, settings, uniform_of(random.x), peak.id);
  const int chosen = usable ? drawn : -1;
  token[0] = chosen;
  if (chosen >= 0) seen[chosen] = 1;
  setting_words[STEP_WORD] = settings.step + 1u;
}

CPU_KERNEL sample_logprobs(__global float* logprob, __global int* top_ids,
                           __global float* top_logprobs, __global const float* logits,
                           __global const int* token, int vocabulary, int top_count) {
  const float max_logit = row_max(logits, vocabulary);
  const float log_sum = log(row_sum_exp(logits, vocabulary, max_logit));
  const int id = token[0];
  const bool exists = id >= 0 && id < vocabulary;
  logprob[0] = exists ? (logits[id] - max_logit) - log_sum : NAN;
  Peak peak = {INFINITY, -1};
  for (int k = 0; k < top_count; ++k) {
    peak = peak_after(logits, vocabulary, peak);
    top_ids[k] = peak.id;
    top_logprobs[k] = (peak.value - max_logit) - log_sum;
  }
}
