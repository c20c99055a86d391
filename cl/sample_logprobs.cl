// sample_logprobs: log-probabilities of a token and of the likeliest ones, for each row of logits.
//
//   logprob = (logits[token] - max) - log(sum_v exp(logits[v] - max))
//   top_ids: the K largest logits, largest first, the lower id first among equals
//
// Shapes  logprob, tokens [N], logits [N, V], top_ids, top_logprobs [N, K]; scratch: list [N, V]
// Types   logits, log-probabilities f32; tokens, top_ids, list i32
// Work    a group of GROUP items for each row; item i reads ids i, i + GROUP, ...
// Local   24 KiB of bins, GROUP floats, 2 MAX_TOP words for the likeliest tokens
// Cost    V reads; with K > 0 2 V reads more, and up to 6 passes over the tokens that the first did
//         not exclude
// Numerics  max - logit is rounded to f32 before the K likeliest are chosen. Logits that are not
//         finite are never listed; places without a token have id -1 and -INFINITY. A row whose
//         token is not in [0, V) gives NaN, and its top_ids and top_logprobs are not written.
//! clc: build GROUP=64 MAX_TOP=32
//! clc: budget on gfx90a registers<=96 spills=0
#ifndef GROUP
#error "GROUP: work-items of the group, a power of two"
#endif

#define X_TYPE f32  // of logits
#include "rowwise/row_sum_exp.clh"
#include "sample_settings.clh"
#include "sample_filters.clh"
#include "sample_bins.clh"

#ifndef MAX_TOP
#error "MAX_TOP: the most alternatives of a row"
#endif

typedef struct {
  __local float* values;
  __local int* ids;
} Likeliest;

// Tokens that rank before place i.
int rank_of(Likeliest found, int count, int i) {
  int rank = 0;
  for (int j = 0; j < count; ++j) {
    const bool larger = found.values[j] > found.values[i];
    const bool equal = found.values[j] == found.values[i];
    rank += larger || (equal && found.ids[j] < found.ids[i]) ? 1 : 0;
  }
  return rank;
}

__attribute__((reqd_work_group_size(GROUP, 1, 1)))
__kernel void sample_logprobs(__global float* logprob, __global int* top_ids,
                              __global float* top_logprobs, __global int* list,
                              __global const float* logits, __global const int* tokens,
                              int vocabulary, int top_count) {
  __local float sums[GROUP], values[MAX_TOP];
  __local int listed, found, ids[MAX_TOP];
  DECLARE_BINS(bins);
  const int item = (int)get_local_id(0), row = (int)get_group_id(0);
  __global const float* z = logits + (long)row * vocabulary;
  list += (long)row * vocabulary;
  float max_z;
  const float log_sum = log(row_sum_exp(z, vocabulary, &max_z, sums));
  const int token = tokens[row];
  const bool exists = token >= 0 && token < vocabulary;
  if (item == 0) {
    logprob[row] = exists ? (z[token] - max_z) - log_sum : NAN;
    listed = found = 0;
  }
  const int wanted = exists ? top_count : 0;
  const SampleSettings settings = {.temperature = 1.0f, .top_k = wanted, .top_p = 1.0f,
                                   .typical_p = 1.0f};
  Search search = first_search(settings, vocabulary, wanted > 0);
  while (search.stage == TOP_K) {
    clear_bins(bins);
    barrier(CLK_LOCAL_MEM_FENCE);  // bins are empty, and the counters are 0
    const bool lists = lists_tokens(search);
    for (int i = item; i < search.size; i += GROUP) {
      const int id = search.listed ? list[i] : i;
      const long code = rank_code(distance_below(max_z, z[id]), id);
      if (!isfinite(z[id]) || code >= search.high) continue;
      if (code >= search.low) add_to_bin(bins, search, code, 0);
      if (lists) list[atomic_inc(&listed)] = id;
    }
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);  // the bins and the list are complete
    if (lists) {
      search.listed = true;
      search.size = listed;
    }
    end_pass(bins, &search, settings, 0.0f, vocabulary);
    barrier(CLK_LOCAL_MEM_FENCE);  // every item has read the bins
  }
  for (int i = item; i < (wanted > 0 ? search.size : 0); i += GROUP) {
    const int id = search.listed ? list[i] : i;
    const long code = rank_code(distance_below(max_z, z[id]), id);
    if (!isfinite(z[id]) || code >= search.rank_end) continue;
    const int place = atomic_inc(&found);
    values[place] = z[id];
    ids[place] = id;
  }
  barrier(CLK_LOCAL_MEM_FENCE);  // the likeliest are complete
  const Likeliest all = {values, ids};
  for (int i = item; i < wanted; i += GROUP) {
    const int place = i < found ? rank_of(all, found, i) : i;
    top_ids[(long)row * top_count + place] = i < found ? ids[i] : NO_TOKEN;
    top_logprobs[(long)row * top_count + place] =
        i < found ? (values[i] - max_z) - log_sum : -INFINITY;
  }
}
