// sample on CPU devices: the formulas of sample.cl with explicit float16 vectors.
//
//   z = logits + bias; if the prompt or the reply has the token: z / repetition for z > 0,
//   z * repetition otherwise; if the reply has it n > 0 times: z - (presence + n * frequency);
//   excluded if the mask does not allow the token or z is -INFINITY by its bias
//   temperature <= 0: the token of the largest z, the lowest id among equals; else
//   w = exp((z - max z) / temperature), filtered by top-k, typical, top-p and min-p, and the token
//   in which the running sum of w passes uniform * sum (sample_filters.clh)
//
// Shapes  tokens [N], latest [S], counts [S, V], settings [N, 16], logits [N, V], bias_ids,
//         bias_values [S, B], mask [N, ceil(V / 32)]; scratch: changed, list [N, V]
// Types   logits, changed, bias_values f32; tokens, latest, bias_ids, list i32; counts, settings,
//         mask u32
// Work    a group of one item for each row: a pass over a vocabulary in cache takes a few us, less
//         than waking a second core
// Local   none; the bins are private
// Cost    as sample.cl; tokens that a pass needs not are passed over 16 at a time
// Numerics  as sample.cl. exp is not the same function, so equal seeds may draw other tokens than
//         there if the draw falls on a boundary.
//! clc: build on cpu:
#include "float16_math.clh"
#include "philox.clh"
#include "sample_settings.clh"
#include "sample_filters.clh"

#define CPU_KERNEL __attribute__((reqd_work_group_size(1, 1, 1))) __kernel void
#define LANES ((int16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15))
#define TO_LONG16(v) __builtin_convertvector(v, long16)  // convert_long16() is a slow call on pocl

// The 16 values from v on; lanes beyond the vocabulary are `fill`.
float16 load16_row(__global const float* values, int v, int vocabulary, float fill) {
  if (v + 16 <= vocabulary) return vload16(0, values + v);
  return load16_tail(values + v, vocabulary - v, fill);
}

void store16_row(float16 x, __global float* values, int v, int vocabulary) {
  if (v + 16 <= vocabulary) {
    vstore16(x, 0, values + v);
  } else {
    store16_tail(x, values + v, vocabulary - v);
  }
}

// Whether a lane of a result of comparisons is true.
bool any16(int16 lanes) {
  const int8 a = lanes.lo | lanes.hi;
  const int4 b = a.lo | a.hi;
  const int2 c = b.lo | b.hi;
  return (c.x | c.y) != 0;
}

float16 finite_or_nan(float16 z) { return fabs(z) < INFINITY ? z : (float16)(NAN); }

// `penalised` of 16 tokens.
float16 penalised16(float16 z, uint16 count, SampleSettings s) {
#pragma OPENCL FP_CONTRACT OFF
  const uint16 in_reply = count & REPLY_COUNT;
  const float16 repeated = z > 0.0f ? z / s.repetition : z * s.repetition;
  const float16 once = count != 0u ? repeated : z;
  const float16 penalty = s.presence + __builtin_convertvector(in_reply, float16) * s.frequency;
  return in_reply != 0u ? once - penalty : once;
}

uint16 load16_counts(__global const uint* counts, int v, int vocabulary) {
  return as_uint16(load16_row((__global const float*)counts, v, vocabulary, 0.0f));
}

// 16 lanes of the mask from token v on, a multiple of 16.
int16 load16_mask(__global const uint* mask, int v) {
  const int bits = (int)(mask[v / 32] >> (v % 32));
  return ((int16)(bits) >> LANES & 1) != 0;
}

// z = the row's logits with biases, penalties and mask.
void change_row(__global float* z, __global const float* logits, __global const uint* counts,
                __global const int* bias_ids, __global const float* bias_values,
                __global const uint* mask, int vocabulary, SampleSettings settings) {
  for (int v = 0; v < vocabulary; v += 16) {
    store16_row(finite_or_nan(load16_row(logits, v, vocabulary, 0.0f)), z, v, vocabulary);
  }
  for (int i = 0; i < settings.bias_count; ++i) {
    const int id = bias_ids[i];
    if (id < 0 || id >= vocabulary) continue;
    z[id] = bias_values[i] == EXCLUDED ? EXCLUDED : z[id] + bias_values[i];
  }
  const bool penalises = has_penalties(settings);
  for (int v = 0; v < vocabulary; v += 16) {
    const float16 biased = load16_row(z, v, vocabulary, 0.0f);
    float16 x = biased;
    if (penalises) x = penalised16(x, load16_counts(counts, v, vocabulary), settings);
    int16 excluded = biased == EXCLUDED;
    if (settings.uses_mask) excluded |= ~load16_mask(mask, v);
    x = excluded ? (float16)(EXCLUDED) : finite_or_nan(x);
    store16_row(x, z, v, vocabulary);
  }
}

typedef struct {
  float value;
  int id;
} Peak;

// The largest value, the lowest id among equals; NO_TOKEN if a value is not finite. `changed`:
// EXCLUDED values do not count, and NOTHING_ALLOWED stands for no other value.
Peak row_peak(__global const float* values, int vocabulary, bool changed) {
  float16 best = -INFINITY;
  int16 best_id = vocabulary;
  int16 id = LANES;
  int16 bad = 0;
  const float lowest = changed ? -INFINITY : -MAXFLOAT;
  for (int v = 0; v < vocabulary; v += 16, id += 16) {
    const float16 x = load16_row(values, v, vocabulary, -MAXFLOAT);
    bad |= ~((x >= lowest) & (x < INFINITY));
    // Ids increase within a lane, so the first of equals stays.
    const int16 better = (x > best) & (id < vocabulary);
    best = better ? x : best;
    best_id = better ? id : best_id;
  }
  const float value = max16(best);
  const int16 candidates = best == value ? best_id : (int16)(vocabulary);
  int ids[16];
  vstore16(candidates, 0, ids);
  int first = vocabulary;
  for (int lane = 0; lane < 16; ++lane) first = min(first, ids[lane]);
  Peak peak = {value, first < vocabulary ? first : NOTHING_ALLOWED};
  if (any16(bad)) peak.id = NO_TOKEN;
  return peak;
}

// The bins of a pass, and the list of tokens.
typedef struct {
  long amounts[BINS];
  long counts[BINS];
} Bins;

typedef struct {
  __global const float* z;
  float max_z;
  float temperature;
  __global int* list;
  int listed;
  bool lists;
} Row;
// Whether a token of these is still kept as far as d says, and not after the searched range.
bool any_within_reach(const Search* s, float16 d) {
  const long end = is_by_rank(s->stage) ? min(s->rank_end, s->high) : s->rank_end;
  return any16(as_int16(d) <= (int)(end >> 32));
}

long16 code16_in_stage(const Search* s, float16 d, float16 x, int16 ids) {
  const long16 id = TO_LONG16(ids);
  if (s->stage == TYPICAL) return TO_LONG16(as_int16(fabs(x - s->mean))) << 32 | id;
  if (is_by_rank(s->stage)) return TO_LONG16(as_int16(d)) << 32 | id;
  return (id & (BINS - 1)) << s->id_bits | id >> BIN_BITS;
}

// The lanes that the search keeps, as long as none has a code beyond the searched range.
long16 kept16(const Search* s, float16 d, float16 x, float16 w, int16 ids) {
  long16 kept = TO_LONG16((w >= MASS_UNIT) & (x <= s->max_x));
  kept &= (TO_LONG16(as_int16(d)) << 32 | TO_LONG16(ids)) < s->rank_end;
  if (s->typical_end != ALL_CODES) {
    kept &= (TO_LONG16(as_int16(fabs(x - s->mean))) << 32 | TO_LONG16(ids)) < s->typical_end;
  }
  return kept;
}

void list_lanes(Row* row, int16 ids, long16 lanes) {
  for (int lane = 0; lane < 16; ++lane) {
    if (((const long*)&lanes)[lane] != 0) row->list[row->listed++] = ((const int*)&ids)[lane];
  }
}

// Adds the first `count` of 16 tokens, with logits z, to the bins and to the list.
void visit16(Bins* bins, const Search* s, Row* row, float16 z, int16 ids, int count) {
  const float16 d = fabs(row->max_z - z);  // distance_below()
  if (!any_within_reach(s, d)) return;
  const float16 x = d / row->temperature;
  const float16 w = exp16(-x);
  const long16 code = code16_in_stage(s, d, x, ids);
  const long16 later = kept16(s, d, x, w, ids) & (code < s->high) & TO_LONG16(LANES < count);
  const long16 searched = later & (code >= s->low);
  if (row->lists) list_lanes(row, ids, later);
  const long16 place = code < s->base ? (long16)(0) : (code - s->base) >> s->shift;
  const long16 bin = place < BINS ? place : (long16)(BINS - 1);
  if (adds_counts(*s)) {
    const long16 tokens = searched & 1;
    for (int lane = 0; lane < 16; ++lane) {
      bins->counts[((const long*)&bin)[lane]] += ((const long*)&tokens)[lane];
    }
  }
  if (adds_amounts(*s)) {
    const float16 amount = (s->stage == MOMENT ? w * x : w) * MASS_ONE;
    const long16 amounts = searched & TO_LONG16(amount);
    for (int lane = 0; lane < 16; ++lane) {
      bins->amounts[((const long*)&bin)[lane]] += ((const long*)&amounts)[lane];
    }
  }
}

void visit_all(Bins* bins, const Search* s, Row* row, int vocabulary) {
  for (int v = 0; v < vocabulary; v += 16) {
    const float16 z = load16_row(row->z, v, vocabulary, EXCLUDED);
    visit16(bins, s, row, z, v + LANES, vocabulary - v);
  }
}

// The tokens of the list, or of a sequence of ids.
void visit_some(Bins* bins, const Search* s, Row* row) {
  for (int i = 0; i < s->size; i += 16) {
    float z[16];
    int ids[16];
    for (int lane = 0; lane < 16; ++lane) {
      const int at = min(i + lane, s->size - 1);
      ids[lane] = s->listed ? row->list[at] : s->first + at * s->stride;
      z[lane] = row->z[ids[lane]];
    }
    visit16(bins, s, row, vload16(0, z), vload16(0, ids), s->size - i);
  }
}

// The bin in which the sum reaches the target, and in *before the sums over earlier bins.
int find_bin(const Bins* bins, const Search* s, Tally* before) {
  before->count = before->amount = 0;
  for (int bin = 0;; ++bin) {
    const Tally sum = {before->count + bins->counts[bin], before->amount + bins->amounts[bin]};
    const long reached = counts_tokens(s->stage) ? sum.count : sum.amount;
    if (reached >= s->target || bin == BINS - 1) return bin;
    *before = sum;
  }
}

Tally sum_of(const Bins* bins) {
  Tally all = {0, 0};
  for (int bin = 0; bin < BINS; ++bin) {
    all.count += bins->counts[bin];
    all.amount += bins->amounts[bin];
  }
  return all;
}

int draw(Row row, SampleSettings settings, float uniform, int vocabulary) {
  Search s = first_search(settings, vocabulary, true);
  while (s.stage != DONE) {
    Bins bins;
    for (int bin = 0; bin < BINS; ++bin) bins.amounts[bin] = bins.counts[bin] = 0;
    row.lists = lists_tokens(s);
    if (s.listed || s.stride != 1) {
      visit_some(&bins, &s, &row);
    } else {
      visit_all(&bins, &s, &row, vocabulary);
    }
    if (row.lists) {
      s.listed = true;
      s.size = row.listed;
    }
    if (wants_bin(&s, settings, uniform, sum_of(&bins))) {
      Tally before;
      const int bin = find_bin(&bins, &s, &before);
      narrow(&s, settings, bin, bins.counts[bin], before, vocabulary);
    }
  }
  return s.drawn;
}

CPU_KERNEL sample(__global int* tokens, __global int* latest, __global uint* counts,
                  __global int* list, __global float* changed, __global const uint* setting_words,
                  __global const float* logits, __global const int* bias_ids,
                  __global const float* bias_values, __global const uint* mask, int vocabulary,
                  int has, int slots, int bias_columns) {
  const int row = (int)get_group_id(0);
  const SampleSettings settings = read_settings(setting_words + row * SETTING_WORDS);
  if (!is_drawn(settings, has, slots, bias_columns)) {
    tokens[row] = settings.slot < 0 ? NO_TOKEN : NO_STATE;
    return;
  }
  const long slot = settings.slot;
  const bool changes = changes_logits(settings);
  __global uint* own_counts = counts + slot * vocabulary;
  __global const float* z = logits + (long)row * vocabulary;
  if (changes) {
    __global float* own = changed + (long)row * vocabulary;
    change_row(own, z, own_counts, bias_ids + slot * bias_columns,
               bias_values + slot * bias_columns, mask + (long)row * ((vocabulary + 31) / 32),
               vocabulary, settings);
    z = own;
  }
  const Peak peak = row_peak(z, vocabulary, changes);
  int token = peak.id;
  if (token >= 0 && settings.temperature > 0.0f) {
    const uint2 random = philox2x32((uint2)(settings.step, 0u), settings.seed);
    list += (long)row * vocabulary;
    const Row searched = {z, peak.value, settings.temperature, list, 0, false};
    token = draw(searched, settings, uniform_of(random.x), vocabulary);
  }
  tokens[row] = token;
  if (settings.keeps_latest && (has & HAS_LATEST) != 0) latest[slot] = token;
  if (token >= 0 && has_penalties(settings)) {
    if ((own_counts[token] & REPLY_COUNT) != REPLY_COUNT) own_counts[token] += 1u;
  }
}
