// attention_order: the order in which a persistent grid takes the tiles of an attention: longest
// first, so the last ones are short.
//
// Shapes  first, last [T] i32: row t attends to the keys first[t] .. last[t]. N = ceil(T / 128)
//         blocks of rows. order [3 N + 1] i32: the blocks of queries, sorted by the number of
//         blocks of keys that they attend to; the blocks of keys, sorted by the number of blocks of
//         queries that attend to them (for rows that attend to first[t] .. t, with first
//         non-decreasing); the position of each block of keys in that order; whether a block of
//         keys visits its queries in ascending order. costs [2, N] i32 is scratch. concurrent: the
//         number of blocks of keys of one head that run concurrently.
// Types   i32
// Work    one work-group
// Local   none
// Cost    N^2 comparisons: 64 blocks of 8192 rows, in a step that computes for milliseconds
// Numerics integers; ties keep the order of the blocks
// The contributions of blocks of keys to the same queries are added one after another. If documents
// are short, the blocks of keys that run concurrently are ordered from the last to the first and
// visit their queries in ascending order: none waits, since each reaches a block of queries after
// its predecessor. With a long document all visit them in descending order.
//! clc: build GROUP=256
//! clc: budget on gfx90a registers<=96 spills<=15
#define BLOCK 128
#define MAX_WAVES 4  // a short document takes at most this many waves

// x: the number of blocks of keys that the rows t0 .. attend to; y: the number of blocks of queries
// that attend to the keys t0 ...
int2 costs_of(__global const int* first, __global const int* last, int t0, int T) {
  int from = INT_MAX, to = 0;
  for (int t = t0; t < min(T, t0 + BLOCK); ++t) {
    from = min(from, first[t]);
    to = max(to, last[t]);
  }
  int sees = t0, past = T;  // row `sees` attends to a key of the block, row `past` does not
  while (past - sees > 1) {
    const int middle = (sees + past) / 2;
    if (first[middle] < t0 + BLOCK) {
      sees = middle;
    } else {
      past = middle;
    }
  }
  return (int2)(to / BLOCK - from / BLOCK, sees / BLOCK - t0 / BLOCK) + 1;
}

__attribute__((reqd_work_group_size(GROUP, 1, 1))) __kernel void attention_order(
    __global int* order, __global int* costs, __global const int* first, __global const int* last,
    int T, int N, int concurrent) {
  for (int block = get_local_id(0); block < N; block += GROUP) {
    const int2 cost = costs_of(first, last, block * BLOCK, T);
    costs[block] = cost.x;
    costs[N + block] = cost.y;
  }
  barrier(CLK_GLOBAL_MEM_FENCE);  // all costs are written
  __global int* positions = order + 2 * N;
  int longest = 0;
  for (int block = 0; block < N; ++block) longest = max(longest, costs[N + block]);
  const int upwards = longest <= MAX_WAVES * concurrent;
  if (get_local_id(0) == 0) order[3 * N] = upwards;
  for (int i = get_local_id(0); i < 2 * N; i += GROUP) {
    const int block = i % N, side = i - block;
    int position = 0;
    for (int other = 0; other < N; ++other) {
      const int more = costs[side + other] - costs[side + block];
      position += more > 0 || (more == 0 && other < block);
    }
    if (side == 0) {
      order[position] = block;
    } else {
      positions[block] = position;
    }
  }
  barrier(CLK_GLOBAL_MEM_FENCE);  // the positions by cost of all keys are written
  for (int block = get_local_id(0); block < N; block += GROUP) {
    int position = positions[block];
    if (upwards) {
      const int wave = position / concurrent;
      position = wave * concurrent;
      for (int other = block + 1; other < N; ++other) {
        position += positions[other] / concurrent == wave;
      }
    }
    order[N + position] = block;
    costs[block] = position;
  }
  barrier(CLK_GLOBAL_MEM_FENCE);  // all have read the positions by cost
  for (int block = get_local_id(0); block < N; block += GROUP) positions[block] = costs[block];
}
