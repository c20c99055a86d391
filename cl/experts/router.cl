// router: the experts of each row, and the plan of the products over experts (grouped_gemm.cl).
//
//   router_select    ids [T, K] = the K experts of the largest logits of a row, in descending order,
//                    the lower number first among equals; weights [T, K] = their
//                    p = softmax(logits [T, X]), with NORMALISE divided by their sum
//   router_count     counts [X] = the entries (row and place) of each expert
//   router_place     entries are sorted by their experts, those of an expert in the order of the
//                    rows; the slots of an expert begin at a multiple of TILE:
//                      begins [X + 1]     the first slot of each expert, and the one after the last
//                      entries [S]        row * K + place of each slot, or -1: the slot is unused
//                      slots [T, K]       the slot of each entry
//                      tile_experts       [S / TILE] the expert of each tile of slots, or -1
//                      active [A]         the experts that have entries, in order, then -1
//   router_backward  dlogits [T, X] from dweights [T, K]
//
// Shapes: X experts, K of them for each row, S slots: enough for any routing, a multiple of TILE
// Types: f32; integers are i32
// Work: select and backward: an item owns a row; count and place: a work-group owns an expert, and
//   an item of it a run of adjacent entries
// Local: count and place: an integer for each item
// Cost: select reads the logits K + 2 times, from the cache; count and place read ids X times
// Numerics: sums in the order of the experts. NaN logits are chosen last, and give NaN weights
//! clc: build GROUP={1,64,256} NORMALISE={0,1}
//! clc: grid of router_count X*GROUP by GROUP
//! clc: grid of router_place X*GROUP by GROUP
#ifndef GROUP
#error "GROUP: work-items of a group of router_count and router_place"
#endif
#ifndef NORMALISE
#define NORMALISE 0
#endif

#include "experts/router_softmax.clh"

float order_of(float logit) { return isnan(logit) ? -INFINITY : logit; }

// The largest of the logits that come after `previous`, the last chosen expert; -1: none is.
int next_expert(__global const float* logits, uint X, int previous) {
  const float before = previous < 0 ? INFINITY : order_of(logits[previous]);
  int best = -1;
  float best_value = -INFINITY;
  for (int i = 0; i < (int)X; ++i) {
    const float value = order_of(logits[i]);
    const int comes_after = (value < before) | ((value == before) & (i > previous));
    const int is_better = comes_after & ((value > best_value) | (best < 0));
    best = is_better ? i : best;
    best_value = is_better ? value : best_value;
  }
  return best;
}

__kernel void router_select(__global int* ids, __global float* weights,
                            __global const float* logits, uint T, uint X, uint K) {
  const uint t = get_global_id(0);
  if (t >= T) return;
  __global const float* row = logits + (size_t)t * X;
  __global int* id = ids + (size_t)t * K;
  __global float* weight = weights + (size_t)t * K;
  const Softmax softmax = softmax_of(row, X);
  float sum = 0.0f;
  for (uint k = 0; k < K; ++k) {
    id[k] = next_expert(row, X, k == 0 ? -1 : id[k - 1]);
    weight[k] = probability(softmax, row[id[k]]);
    sum += weight[k];
  }
#if NORMALISE
  for (uint k = 0; k < K; ++k) weight[k] /= sum;
#endif
}

// The item's run of n entries.
uint run_begin(uint n) { return min(n, (n + GROUP - 1) / GROUP * (uint)get_local_id(0)); }
uint run_end(uint n) { return min(n, (n + GROUP - 1) / GROUP * ((uint)get_local_id(0) + 1)); }

// How many entries of the item's run are of `expert`.
uint entries_of(__global const int* ids, uint n, int expert) {
  uint count = 0;
  for (uint i = run_begin(n), end = run_end(n); i < end; ++i) count += ids[i] == expert;
  return count;
}

__attribute__((reqd_work_group_size(GROUP, 1, 1))) __kernel void router_count(
    __global int* counts, __global const int* ids, uint n) {
  __local uint parts[GROUP];
  const int expert = get_group_id(0);
  parts[get_local_id(0)] = entries_of(ids, n, expert);
  barrier(CLK_LOCAL_MEM_FENCE);  // all parts are written
  if (get_local_id(0) != 0) return;
  uint sum = 0;
  for (uint i = 0; i < GROUP; ++i) sum += parts[i];
  counts[expert] = sum;
}

void fill(__global int* at, uint begin, uint end, int value) {
  for (uint i = begin + get_local_id(0); i < end; i += GROUP) at[i] = value;
}

uint padded(uint count, uint tile) { return (count + tile - 1) / tile * tile; }

// The slots and the place among the active experts where those of an expert begin.
typedef struct {
  uint slot, active;
} Begin;

Begin begin_of(__global const int* counts, uint expert, uint tile) {
  Begin begin = {0, 0};
  for (uint i = 0; i < expert; ++i) {
    const uint count = counts[i];
    begin.slot += padded(count, tile);
    begin.active += count > 0;
  }
  return begin;
}

__attribute__((reqd_work_group_size(GROUP, 1, 1))) __kernel void router_place(
    __global int* entries, __global int* slots, __global int* tile_experts, __global int* begins,
    __global int* active, __global const int* counts, __global const int* ids, uint n, uint X,
    uint S, uint A, uint tile) {
#if GROUP > 1
  __local uint parts[GROUP];
#endif
  const uint item = get_local_id(0), expert = get_group_id(0);
  const Begin begin = begin_of(counts, expert, tile);
  const uint count = counts[expert], end = begin.slot + padded(count, tile);
  uint slot = begin.slot;
#if GROUP > 1
  parts[item] = entries_of(ids, n, expert);
  barrier(CLK_LOCAL_MEM_FENCE);  // all parts are written
  for (uint i = 0; i < item; ++i) slot += parts[i];
#endif
  for (uint i = run_begin(n), run = run_end(n); i < run; ++i) {
    if (ids[i] != (int)expert) continue;
    slots[i] = slot;
    entries[slot++] = i;
  }
  fill(entries, begin.slot + count, end, -1);
  fill(tile_experts, begin.slot / tile, end / tile, expert);
  if (item == 0) {
    begins[expert] = begin.slot;
    if (count > 0) active[begin.active] = expert;
  }
  if (expert + 1 != X) return;
  fill(entries, end, S, -1);
  fill(tile_experts, end / tile, S / tile, -1);
  fill(active, begin.active + (count > 0), A, -1);
  if (item == 0) begins[X] = end;
}

__kernel void router_backward(__global float* dlogits, __global const float* logits,
                              __global const int* ids, __global const float* dweights, uint T,
                              uint X, uint K) {
  const uint t = get_global_id(0);
  if (t >= T) return;
  __global const float* row = logits + (size_t)t * X;
  __global const int* id = ids + (size_t)t * K;
  __global const float* dweight = dweights + (size_t)t * K;
  __global float* dlogit = dlogits + (size_t)t * X;
  const Softmax softmax = softmax_of(row, X);
  // dweights . p and, of normalised weights, dweights . weights
  float dot = 0.0f, total = 0.0f;
  for (uint k = 0; k < K; ++k) {
    const float p = probability(softmax, row[id[k]]);
    total += p;
    dot = fma(dweight[k], p, dot);
  }
#if NORMALISE
  // weights do not change with what the others of the softmax have
  const float mean = dot / total, all = 0.0f, factor = 1.0f / total;
#else
  const float mean = 0.0f, all = dot, factor = 1.0f;
#endif
  for (uint i = 0; i < X; ++i) dlogit[i] = -all * probability(softmax, row[i]);
  for (uint k = 0; k < K; ++k) {
    const float p = probability(softmax, row[id[k]]);
    dlogit[id[k]] = fma((dweight[k] - mean) * factor, p, dlogit[id[k]]);
  }
}
