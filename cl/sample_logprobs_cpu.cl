// sample_logprobs on CPU devices: the formulas of sample_logprobs.cl with explicit float16 vectors.
//
//   logprob = (logits[token] - max) - log(sum_v exp(logits[v] - max))
//   top_ids: the K largest logits, largest first, the lower id first among equals
//
// Shapes  logprob, tokens [N], logits [N, V], top_ids, top_logprobs [N, K]
// Types   logits, log-probabilities f32; tokens, top_ids i32
// Work    a group of one item for each row; the K likeliest of the ids so far are kept in order,
//         and 16 logits are first compared with the last of them
// Local   none
// Cost    2 V reads; with K > 0 V reads more and about K log(V / K) insertions
// Numerics  as sample_logprobs.cl, but the logits themselves are compared. The list of a row with a
//         NaN, whose log-probabilities are all NaN, may lack tokens.
//! clc: build on cpu: MAX_TOP=32
#ifndef MAX_TOP
#error "MAX_TOP: the most alternatives of a row"
#endif

#include "rowwise/row_sum_exp_cpu.clh"

#define NO_TOKEN -1

// The likeliest tokens so far, the likeliest first.
typedef struct {
  float values[MAX_TOP];
  int ids[MAX_TOP];
  int count;
} Likeliest;

// Inserts a token whose id is larger than all earlier ones; the last of `most` is dropped.
void insert(Likeliest* top, int most, float value, int id) {
  if (!isfinite(value) || (top->count == most && value <= top->values[most - 1])) return;
  if (top->count < most) ++top->count;
  int place = top->count - 1;
  for (; place > 0 && top->values[place - 1] < value; --place) {
    top->values[place] = top->values[place - 1];
    top->ids[place] = top->ids[place - 1];
  }
  top->values[place] = value;
  top->ids[place] = id;
}

void find_likeliest(Likeliest* top, int most, __global const float* z, int vocabulary) {
  top->count = 0;
  int v = 0;
  for (; v + 16 <= vocabulary; v += 16) {
    const float16 x = vload16(0, z + v);
    const bool full = top->count == most;
    if (full && !(max16(x) > top->values[most - 1])) continue;
    for (int lane = 0; lane < 16; ++lane) insert(top, most, z[v + lane], v + lane);
  }
  for (; v < vocabulary; ++v) insert(top, most, z[v], v);
}

__attribute__((reqd_work_group_size(1, 1, 1)))
__kernel void sample_logprobs(__global float* logprob, __global int* top_ids,
                              __global float* top_logprobs, __global const float* logits,
                              __global const int* tokens, int vocabulary, int top_count) {
  const int row = (int)get_group_id(0);
  __global const float* z = logits + (long)row * vocabulary;
  const int token = tokens[row];
  const bool exists = token >= 0 && token < vocabulary;
  if (!exists) {
    logprob[row] = NAN;
    return;
  }
  const float max_z = row_max(z, vocabulary);
  const float log_sum = log(row_sum_exp(z, vocabulary, max_z));
  logprob[row] = (z[token] - max_z) - log_sum;
  if (top_count == 0) return;
  Likeliest top;
  find_likeliest(&top, top_count, z, vocabulary);
  top_ids += (long)row * top_count;
  top_logprobs += (long)row * top_count;
  for (int k = 0; k < top_count; ++k) {
    top_ids[k] = k < top.count ? top.ids[k] : NO_TOKEN;
    top_logprobs[k] = k < top.count ? (top.values[k] - max_z) - log_sum : -INFINITY;
  }
}
