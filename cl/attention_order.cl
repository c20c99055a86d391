// attention_order: in which order a persistent grid takes the tiles of an attention: those with most to
// do first, so that the last ones are short.
//
// Shapes  first, last [T] i32: row t sees the keys first[t] .. last[t]. N = ceil(T / 128) blocks of rows.
//         order [3 N + 1] i32: the blocks of queries by how many blocks of keys they see; the blocks of
//         keys by how many blocks of queries see them (for rows that see first[t] .. t, first not
//         decreasing); the place of each block of keys among these; whether a block of keys goes
//         through the queries that see it upwards. costs [2, N] i32 is scratch.
//         beside: how many blocks of keys of one head are worked on at a time.
// Types   i32
// Work    one work-group
// Local   none
// Cost    N^2 comparisons: 64 blocks of 8192 rows, in a step that computes for milliseconds
// Numerics integers; of equal blocks the first one goes first
// What blocks of keys give to the same queries is added one after another. Where documents are short,
// those worked on beside one another go from the last to the first, upwards: then none waits, since each
// comes to a block of queries after the one before it in order. Of a long document all go downwards.
//! clc: build GROUP=256
//! clc: budget on gfx90a registers<=96 spills<=15
#define BLOCK 128
#define MAX_TURNS 4  // in which a short document is done

// The blocks of keys that rows t0 .. see, and the blocks of queries that see the keys t0 ...
int2 costs_of(__global const int* first, __global const int* last, int t0, int T) {
  int from = INT_MAX, to = 0;
  for (int t = t0; t < min(T, t0 + BLOCK); ++t) {
    from = min(from, first[t]);
    to = max(to, last[t]);
  }
  int sees = t0, past = T;  // row `sees` sees a key of the block, row `past` does not
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
    int T, int N, int beside) {
  for (int block = get_local_id(0); block < N; block += GROUP) {
    const int2 cost = costs_of(first, last, block * BLOCK, T);
    costs[block] = cost.x;
    costs[N + block] = cost.y;
  }
  barrier(CLK_GLOBAL_MEM_FENCE);  // all costs are there
  __global int* places = order + 2 * N;
  int longest = 0;
  for (int block = 0; block < N; ++block) longest = max(longest, costs[N + block]);
  const int upwards = longest <= MAX_TURNS * beside;
  if (get_local_id(0) == 0) order[3 * N] = upwards;
  for (int i = get_local_id(0); i < 2 * N; i += GROUP) {
    const int block = i % N, side = i - block;
    int place = 0;
    for (int other = 0; other < N; ++other) {
      const int more = costs[side + other] - costs[side + block];
      place += more > 0 || (more == 0 && other < block);
    }
    if (side == 0) {
      order[place] = block;
    } else {
      places[block] = place;
    }
  }
  barrier(CLK_GLOBAL_MEM_FENCE);  // all keys' places by cost are there
  for (int block = get_local_id(0); block < N; block += GROUP) {
    int place = places[block];
    if (upwards) {
      const int turn = place / beside;
      place = turn * beside;
      for (int other = block + 1; other < N; ++other) place += places[other] / beside == turn;
    }
    order[N + place] = block;
    costs[block] = place;
  }
  barrier(CLK_GLOBAL_MEM_FENCE);  // nobody reads places by cost any more
  for (int block = get_local_id(0); block < N; block += GROUP) places[block] = costs[block];
}
