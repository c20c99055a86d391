// sample: the next token of each row of logits, with settings per row (ops/sample.hpp).
//
//   z = logits + bias; if the prompt or the reply has the token: z / repetition for z > 0,
//   z * repetition otherwise; if the reply has it n > 0 times: z - (presence + n * frequency);
//   excluded if the mask does not allow the token or z is -INFINITY by its bias
//   temperature <= 0: the token of the largest z, the lowest id among equals; else
//   w = exp((z - max z) / temperature), filtered by top-k, typical, top-p and min-p, and the token
//   in which the running sum of w passes uniform * sum (sample_filters.clh), uniform from
//   Philox2x32 of key seed and counter (step, 0)
//
// Shapes  tokens [N], latest [S], counts [S, V], settings [N, 16], logits [N, V], bias_ids,
//         bias_values [S, B], mask [N, ceil(V / 32)]; scratch: peaks [N, PARTS], changed, list
//         [N, V]
// Types   logits, changed, bias_values f32; tokens, latest, bias_ids, list i32; counts, settings,
//         mask u32; peaks: pairs of an f32 and an i32
// Work    sample_peaks: a group of GROUP items for each of the PARTS parts of a row; item i owns
//         ids i, i + GROUP, ... of the part. sample: a group for each row
// Local   sample_peaks: 2 GROUP words; sample: 24 KiB of bins
// Cost    greedy: V reads; changed rows: 3 V reads and 2 V writes; a draw: 2 V reads more (with
//         typical 4 V), and up to 6 passes per filter over the tokens that the first pass left
// Numerics  d = max z - z is rounded to f32 before tokens are ranked. Masses are integers, so the
//         result does not depend on GROUP, PARTS, or the order of items.
//! clc: build GROUP=64 AT_ONCE=1
//! clc: build GROUP=512 AT_ONCE=8
//! clc: budget on gfx90a registers<=112 spills<=24
#if !defined GROUP || !defined AT_ONCE
#error "GROUP: work-items of a group, a power of two; AT_ONCE: loads of an item in flight"
#endif

#include "philox.clh"
#include "sample_settings.clh"
#include "sample_filters.clh"
#include "sample_bins.clh"

typedef struct {
  float value;
  int id;
} Peak;

// Whether a ranks before b: the larger value first, the lower id first among equals.
bool ranks_before(Peak a, Peak b) {
  return a.value > b.value || (a.value == b.value && a.id < b.id);
}

// A value that is not finite ranks before all others, so the search for the largest finds it.
#define NOT_FINITE ((Peak){INFINITY, NO_TOKEN})
#define NOTHING ((Peak){-INFINITY, NOTHING_ALLOWED})

Peak peak_of(float z, int id, bool changed) {
  if (changed && z == EXCLUDED) return NOTHING;
  return isfinite(z) ? (Peak){z, id} : NOT_FINITE;
}

// Adds the biases of the item's own tokens among those from begin to end.
void add_biases(__global float* z, int begin, int end, __global const int* ids,
                __global const float* values, int count) {
  const uint item = (uint)get_local_id(0);
  for (int i = 0; i < count; ++i) {
    const int id = ids[i];
    const bool owned = id >= begin && id < end && (uint)(id - begin) % GROUP == item;
    if (owned) z[id] = values[i] == EXCLUDED ? EXCLUDED : z[id] + values[i];
  }
}

float finite_or_nan(float z) { return isfinite(z) ? z : NAN; }

// The largest of z[first], z[first + GROUP], ... before `end`.
Peak own_peak(__global const float* z, int first, int end, bool changed) {
  Peak best = NOTHING;
  for (int v = first; v < end; v += AT_ONCE * GROUP) {
    float loaded[AT_ONCE];
#pragma unroll
    for (int i = 0; i < AT_ONCE; ++i) loaded[i] = v + i * GROUP < end ? z[v + i * GROUP] : 0.0f;
#pragma unroll
    for (int i = 0; i < AT_ONCE; ++i) {
      const Peak here = peak_of(loaded[i], v + i * GROUP, changed);
      if (v + i * GROUP < end && ranks_before(here, best)) best = here;
    }
  }
  return best;
}

// The greatest of all items' peaks.
Peak group_peak(Peak best, __local int2* scratch) {
  const int item = (int)get_local_id(0);
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
  return (Peak){as_float(scratch[0].x), scratch[0].y};
}

// peaks[row, part] = the largest changed logit of the part. Writes `changed` if the row's settings
// change logits.
__attribute__((reqd_work_group_size(GROUP, 1, 1)))
__kernel void sample_peaks(__global int2* peaks, __global float* changed,
                           __global const uint* setting_words, __global const float* logits,
                           __global const uint* counts, __global const int* bias_ids,
                           __global const float* bias_values, __global const uint* mask,
                           int vocabulary, int part_size, int has, int slots, int bias_columns) {
  __local int2 scratch[GROUP];
  const int item = (int)get_local_id(0), part = (int)get_group_id(0), row = (int)get_group_id(1);
  const SampleSettings settings = read_settings(setting_words + row * SETTING_WORDS);
  const bool drawn = is_drawn(settings, has, slots, bias_columns);
  const bool changes = drawn && changes_logits(settings);
  const int begin = part * part_size;  // clc: allow index-overflow below V + part_size
  const int end = drawn ? min(begin + part_size, vocabulary) : begin;
  __global const float* z = logits + (long)row * vocabulary;
  if (changes) {
    __global float* own = changed + (long)row * vocabulary;
    const long slot = settings.slot;
    for (int v = begin + item; v < end; v += GROUP) own[v] = finite_or_nan(z[v]);
    add_biases(own, begin, end, bias_ids + slot * bias_columns, bias_values + slot * bias_columns,
               settings.bias_count);
    __global const uint* count = counts + slot * vocabulary;
    __global const uint* allowed = mask + (long)row * ((vocabulary + 31) / 32);
    const bool penalises = has_penalties(settings);
    for (int v = begin + item; v < end; v += GROUP) {
      const bool excluded =
          own[v] == EXCLUDED || (settings.uses_mask && !is_allowed(allowed, v));
      const float x = penalises ? penalised(own[v], count[v], settings) : own[v];
      own[v] = excluded ? EXCLUDED : finite_or_nan(x);
    }
    z = own;
  }
  const Peak best = group_peak(own_peak(z, begin + item, end, changes), scratch);
  if (item == 0 && drawn) {
    peaks[(long)row * get_num_groups(0) + part] = (int2)(as_int(best.value), best.id);
  }
}

Peak row_peak(__global const int2* peaks, int parts) {
  Peak best = NOTHING;
  for (int part = 0; part < parts; ++part) {
    const Peak here = {as_float(peaks[part].x), peaks[part].y};
    if (ranks_before(here, best)) best = here;
  }
  return best;
}

// Adds a token to the bins if the search keeps it. Whether a later pass needs it.
bool visit(Bins bins, Search s, float temperature, float d, int id) {
  const float x = d / temperature;
  const float w = exp(-x);
  const bool kept = w >= MASS_UNIT && x <= s.max_x && rank_code(d, id) < s.rank_end &&
                    (s.typical_end == ALL_CODES || typical_code(s, x, id) < s.typical_end);
  const long code = code_in_stage(s, d, x, id);
  if (!kept || code >= s.high) return false;
  if (code >= s.low) {
    const float amount = s.stage == MOMENT ? w * x : w;
    add_to_bin(bins, s, code, (long)(amount * MASS_ONE));
  }
  return true;
}

// Token i of a pass, or -1 after the last.
int token_at(Search s, __global const int* list, int i) {
  if (i >= s.size) return -1;
  return s.listed ? list[i] : s.first + i * s.stride;
}

__attribute__((reqd_work_group_size(GROUP, 1, 1)))
__kernel void sample(__global int* tokens, __global int* latest, __global uint* counts,
                     __global int* list, __global const int2* peaks, __global const float* changed,
                     __global const uint* setting_words, __global const float* logits,
                     int vocabulary, int parts, int has, int slots, int bias_columns) {
  __local int listed;
  DECLARE_BINS(bins);
  const int item = (int)get_local_id(0), row = (int)get_group_id(0);
  const SampleSettings settings = read_settings(setting_words + row * SETTING_WORDS);
  const bool drawn = is_drawn(settings, has, slots, bias_columns);
  const Peak peak = row_peak(peaks + (long)row * parts, drawn ? parts : 0);
  __global const float* z =
      (changes_logits(settings) ? changed : logits) + (long)row * vocabulary;
  list += (long)row * vocabulary;
  const uint2 random = philox2x32((uint2)(settings.step, 0u), settings.seed);
  Search search = first_search(settings, vocabulary, drawn && peak.id >= 0);
  if (item == 0) listed = 0;
  const bool searches = search.stage != DONE;
  while (search.stage != DONE) {
    clear_bins(bins);
    barrier(CLK_LOCAL_MEM_FENCE);  // bins are empty, and `listed` is 0
    const bool lists = lists_tokens(search);
    for (int i = item; i < search.size; i += AT_ONCE * GROUP) {
      float d[AT_ONCE];
#pragma unroll
      for (int k = 0; k < AT_ONCE; ++k) {
        const int id = token_at(search, list, i + k * GROUP);
        d[k] = id >= 0 ? distance_below(peak.value, z[id]) : 0.0f;
      }
#pragma unroll
      for (int k = 0; k < AT_ONCE; ++k) {
        const int id = token_at(search, list, i + k * GROUP);
        const bool later = id >= 0 && visit(bins, search, settings.temperature, d[k], id);
        if (lists && later) list[atomic_inc(&listed)] = id;
      }
    }
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);  // the bins and the list are complete
    if (lists) {
      search.listed = true;
      search.size = listed;
    }
    end_pass(bins, &search, settings, uniform_of(random.x), vocabulary);
    barrier(CLK_LOCAL_MEM_FENCE);  // every item has read the bins
  }
  if (item == 0) {
    const int greedy_or_none = drawn ? peak.id : settings.slot < 0 ? NO_TOKEN : NO_STATE;
    const int token = searches ? search.drawn : greedy_or_none;
    tokens[row] = token;
    if (drawn && settings.keeps_latest && (has & HAS_LATEST) != 0) latest[settings.slot] = token;
    if (drawn && token >= 0 && has_penalties(settings)) {
      __global uint* count = counts + ((long)settings.slot * vocabulary + token);
      if ((*count & REPLY_COUNT) != REPLY_COUNT) *count += 1u;
    }
  }
}
