// decode_layers_gpu: all blocks of a transformer for one row over its cache, in one launch, on GPUs
// that run one work-group on every compute unit concurrently.
//
//   for each layer:  h = rms_norm(x);  q, k, v = h w^T + bias;  q, k rotated;  k, v to the cache
//                    x += attention(q, keys, values) w_o^T
//                    h = rms_norm(x);  x += (silu(h w_gate^T) (h w_up^T)) w_down^T
//
// With -D ADAPTED each product has an adapter's term, of its own rank R or none:
//                    y = h w^T + scale (h a^T) u,  a [R, inputs], u [R, outputs]
//
// Shapes  x [D], updated; q [H, E]; parts [H, SPLITS, E + 2]; hidden [F]; rope_table [P, E / 2, 2];
//         keys, values [S, G, E]; s_parts one number for each row of a and slice of its steps;
//         weights [outputs, inputs]
// Types   weights one type of quant.clh, all else f32; position, first, last [1] i32
// Work    co-resident work-groups of GROUP items, with a grid barrier after each of five parts
//         (grid_barrier.clh): projections, attention by splits of keys, o, gate and up, down.
//         decode_pairs_gpu.clh describes how a product is distributed. Its first weights are
//         prefetched before the barrier that precedes it, so memory stays busy across barriers. h
//         a^T is distributed over all groups before a product, with one more grid barrier.
//         Loops with barriers run at least once: otherwise pocl duplicates all code that follows
//         the loop.
// Local   the row that a product reads; attention's scratch uses the same memory
// Cost    reads every weight once and the cache's rows first .. last once for each query head
// Numerics  f32 fma in lanes' sums, then over the lanes: the same bits every run. rms_norm's scale
//         multiplies the sums of the products, not the row.
//! clc: build on gpu: WEIGHT_TYPE={WEIGHT_F32,WEIGHT_BF16,WEIGHT_Q8_0} MAX_RANKS=1
//!     GROUP=512 D=128 F=192 H=4 G=2 E=32 SPLITS=2 MAX_LAYERS=3 LOCAL_FLOATS=2592
//!     HEADS_LANES=32 O_LANES=32 GATES_LANES=32 DOWN_LANES=32
//! clc: build on gpu: WEIGHT_TYPE=WEIGHT_BF16 MAX_RANKS=78 ADAPTED
//!     GROUP=512 D=128 F=192 H=4 G=2 E=32 SPLITS=2 MAX_LAYERS=3 LOCAL_FLOATS=2592
//!     HEADS_LANES=32 O_LANES=32 GATES_LANES=32 DOWN_LANES=32
//! clc: budget on gfx90a registers<=128 spills<=15
#include "decode/decode_attention_gpu.clh"
#include "decode/decode_problem.clh"
#include "decode/decode_products_gpu.clh"
#include "grid_barrier.clh"

// input = x w; returns rms_norm's scale.
__attribute__((always_inline)) float load_normed(__local float* input, __global const float* x,
                                                 __global const float* w, float epsilon,
                                                 __local float* scratch) {
  float squares = 0.0f;
  for (uint i = get_local_id(0); i < D / 4; i += GROUP) {
    const float4 four = ((__global const float4*)x)[i];
    squares += dot(four, four);
    ((__local float4*)input)[i] = four * ((__global const float4*)w)[i];
  }
  return rsqrt(group_total(squares, scratch) / D + epsilon);  // after barriers: input is complete
}

__attribute__((always_inline)) void load_row(__local float* input, __global const float* from,
                                             uint count) {
  for (uint i = get_local_id(0); i < count / 4; i += GROUP) {
    ((__local float4*)input)[i] = ((__global const float4*)from)[i];
  }
  barrier(CLK_LOCAL_MEM_FENCE);  // input is complete
}

// Computes and adds the split-K slices of h a^T, with a grid barrier in between.
#ifdef ADAPTED
#define GRID_BARRIERS 9
#define MAKE_S(part)                                  \
  make_s_parts(part, s_parts, layer, input, scratch); \
  arrive(grid_barrier);                               \
  wait_for(grid_barrier, turn += groups);             \
  join_s_parts(part, s, s_parts, layer);
#else
#define GRID_BARRIERS 5
#define MAKE_S(part)
#endif

__attribute__((reqd_work_group_size(GROUP, 1, 1))) __kernel void decode_layers(
    __global float* x, __global float* q, __global float* parts, __global float* hidden,
    __global float* s_parts, __global const ulong* addresses, __global const float* rope_table,
    __global const int* position, __global const int* first, __global const int* last,
    __global volatile uint* grid_barrier, DecodeProblem problem) {
  const uint layers = problem.layers;
  const float epsilon = problem.epsilon;
  __local float input[LOCAL_FLOATS] __attribute__((aligned(16)));
  __local float scratch[TEAM_SCRATCH(2)];
  __local float s[MAX_RANKS], factors[2 * H * SPLITS];
  __local ulong table[MAX_LAYERS * ADDRESSES];
  for (uint i = get_local_id(0); i < layers * ADDRESSES; i += GROUP) table[i] = addresses[i];
  barrier(CLK_LOCAL_MEM_FENCE);  // the table is complete
  const uint groups = get_num_groups(0);
  const Row row = {x, q, hidden, rope_table + (long)position[0] * E, position[0],
                   problem.S};
  uint turn = arrivals_before(grid_barrier, groups * GRID_BARRIERS * layers);
  Vec8Pair ahead[AHEAD];
  load_ahead(ahead, HEADS, table, pair_of(HEADS, 0));
  uint l = 0;
  do {
    __local const ulong* layer = table + l * ADDRESSES;
    float factor = load_normed(input, x, FLOATS(INPUT_NORM), epsilon, scratch);
    MAKE_S(HEADS)
    multiply(HEADS, ahead, layer, &row, input, factor, s, scratch);
    arrive(grid_barrier);
    wait_for(grid_barrier, turn += groups);  // q and the cache's new row are complete

    attend(parts, layer, q, first[0], last[0], problem.scale, input, scratch);
    arrive(grid_barrier);
    load_ahead(ahead, O, layer, pair_of(O, 0));
    wait_for(grid_barrier, turn += groups);  // all parts of attention are written

    load_joined(input, factors, parts);
    MAKE_S(O)
    multiply(O, ahead, layer, &row, input, 1.0f, s, scratch);
    arrive(grid_barrier);
    load_ahead(ahead, GATES, layer, pair_of(GATES, 0));
    wait_for(grid_barrier, turn += groups);  // x is complete

    factor = load_normed(input, x, FLOATS(OUTPUT_NORM), epsilon, scratch);
    MAKE_S(GATES)
    multiply(GATES, ahead, layer, &row, input, factor, s, scratch);
    arrive(grid_barrier);
    load_ahead(ahead, DOWN, layer, pair_of(DOWN, 0));
    wait_for(grid_barrier, turn += groups);  // hidden is complete

    load_row(input, hidden, F);
    MAKE_S(DOWN)
    multiply(DOWN, ahead, layer, &row, input, 1.0f, s, scratch);
    arrive(grid_barrier);
    if (l + 1 < layers) load_ahead(ahead, HEADS, layer + ADDRESSES, pair_of(HEADS, 0));
    wait_for(grid_barrier, turn += groups);  // x is complete
  } while (++l < layers);
  if (get_group_id(0) == 0) end_launch(grid_barrier);
}
