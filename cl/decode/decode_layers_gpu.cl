// decode_layers_gpu: all blocks of a transformer for one row over its cache, in one launch, on GPUs
// that run one work-group on every compute unit concurrently.
//
//   for each layer:  h = rms_norm(x);  q, k, v = h w^T + bias;  q, k rotated;  k, v to the cache
//                    x += multiplier attention(q, keys, values) w_o^T
//                    h = rms_norm(x);  x += multiplier (silu(h w_gate^T) (h w_up^T)) w_down^T
//
// With -D HEAD_NORMS each head of q and k is normalised before it is rotated; with -D POST_NORMS
// the outputs of w_o and w_down are, before they are multiplied and added; with -D GELU gelu takes
// the place of silu; with -D SOFT_CAP scores are capped (soft_cap.clh). With post-norms every group
// keeps the residual stream in local memory: the next norm needs all of it, and a stream for all
// groups would need another grid barrier.
// With -D ADAPTED each product has an adapter's term, of its own rank R or none:
//                    y = h w^T + scale (h a^T) u,  a [R, inputs], u [R, outputs]
// and with -D JOINED_HEADS q, k and v have one adapter, with -D JOINED_GATES gate and up
// (decode_adapters_gpu.clh).
//
// Shapes  x [D], updated; heads [H + G, E], q and with norms of heads k before its norm; parts
//         [H, SPLITS, E + 2]; hidden [F]; output [D], with post-norms; rope tables
//         [P, ROPE_WIDTH / 2, 2]; keys, values [S, G, E]; s_parts one number for each row of a and
//         slice of its steps; weights [outputs, inputs]
// Types   weights one type of quant.clh; keys and values of -D KEY_TYPE: f32, bf16 or f16; all else
//         f32; position, first, last, slot [1] i32; pages [] i32: the row's page table
//         (attention/paged_keys.clh), with -D PAGE
// Work    co-resident work-groups of GROUP items, with a grid barrier after each of five parts
//         (grid_barrier.clh): projections, attention by splits of keys, o, gate and up, down; and
//         one more for the norms of heads (decode_heads_gpu.clh).
//         decode_pairs_gpu.clh describes how a product is distributed. Its first weights are
//         prefetched before the barrier that precedes it, so memory stays busy across barriers. h
//         a^T is distributed over all groups before a product, with one more grid barrier.
//         Loops with barriers run at least once: otherwise pocl duplicates all code that follows
//         the loop.
// Local   the row that a product reads; attention's scratch uses the same memory
// Cost    reads every weight once and the keys first .. last once for each query head
// Numerics  f32 fma in lanes' sums, then over the lanes: the same bits every run. rms_norm's scale
//         multiplies the sums of the products, not the row.
//! clc: build on gpu: WEIGHT_TYPE={WEIGHT_F32,WEIGHT_BF16,WEIGHT_Q8_0} KEY_TYPE={f32,bf16}
//!     PAGE=16 MAX_RANKS=1 GROUP=512 D=128 F=192 H=4 G=2 E=32 SPLITS=2 MAX_LAYERS=3 LOCAL_FLOATS=2592
//!     HEADS_LANES=32 O_LANES=32 GATES_LANES=32 DOWN_LANES=32 ROPE_WIDTH=32
//! clc: build on gpu: WEIGHT_TYPE=WEIGHT_BF16 KEY_TYPE=f16 PAGE=16 MAX_RANKS=78 ADAPTED
//!     GROUP=512 D=128 F=192 H=4 G=2 E=32 SPLITS=2 MAX_LAYERS=3 LOCAL_FLOATS=2592
//!     HEADS_LANES=32 O_LANES=32 GATES_LANES=32 DOWN_LANES=32 ROPE_WIDTH=32
//! clc: build on gpu: WEIGHT_TYPE=WEIGHT_BF16 KEY_TYPE=bf16 PAGE=16 MAX_RANKS=78 ADAPTED HEAD_NORMS
//!     POST_NORMS GELU GROUP=512 D=128 F=192 H=4 G=2 E=32 SPLITS=2 MAX_LAYERS=3 LOCAL_FLOATS=2592
//!     HEADS_LANES=32 O_LANES=32 GATES_LANES=32 DOWN_LANES=32 ROPE_WIDTH=16 SOFT_CAP=50.0f
//! clc: build on gpu: WEIGHT_TYPE=WEIGHT_BF16 KEY_TYPE=f32 PAGE=16 MAX_RANKS=78 ADAPTED JOINED_HEADS
//!     JOINED_GATES GROUP=512 D=128 F=192 H=4 G=2 E=32 SPLITS=2 MAX_LAYERS=3 LOCAL_FLOATS=2592
//!     HEADS_LANES=32 O_LANES=32 GATES_LANES=32 DOWN_LANES=32 ROPE_WIDTH=32
//! clc: budget on gfx90a registers<=128 spills<=31
#include "decode/decode_attention_gpu.clh"
#include "decode/decode_heads_gpu.clh"
#include "decode/decode_problem.clh"
#include "decode/decode_products_gpu.clh"
#include "grid_barrier.clh"

// The residual stream is x, or with post-norms a copy in each group.
#ifdef POST_NORMS
#define STREAM __local
#else
#define STREAM __global
#endif

// input = stream w; returns rms_norm's scale.
__attribute__((always_inline)) float load_normed(__local float* input, STREAM const float* stream,
                                                 __global const float* w, float epsilon,
                                                 __local float* scratch) {
  float squares = 0.0f;
  for (uint i = get_local_id(0); i < D / 4; i += GROUP) {
    const float4 four = ((STREAM const float4*)stream)[i];
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

#ifdef POST_NORMS
// stream += multiplier rms_norm(output). An item reads and writes the elements that it reads in
// load_normed().
__attribute__((always_inline)) void add_normed(__local float* stream, __global const float* output,
                                               __global const float* w, DecodeProblem problem,
                                               __local float* scratch) {
  float squares = 0.0f;
  for (uint i = get_local_id(0); i < D / 4; i += GROUP) {
    const float4 four = ((__global const float4*)output)[i];
    squares += dot(four, four);
  }
  const float scale =
      problem.multiplier * rsqrt(group_total(squares, scratch) / D + problem.epsilon);
  for (uint i = get_local_id(0); i < D / 4; i += GROUP) {
    ((__local float4*)stream)[i] +=
        scale * ((__global const float4*)output)[i] * ((__global const float4*)w)[i];
  }
}
#endif

// Computes and adds the split-K slices of h a^T, with a grid barrier in between.
#ifdef HEAD_NORMS
#define HEAD_BARRIERS 1
#else
#define HEAD_BARRIERS 0
#endif
#ifdef ADAPTED
#define GRID_BARRIERS (9 + HEAD_BARRIERS)
#define MAKE_S(part)                                  \
  make_s_parts(part, s_parts, layer, input, scratch); \
  arrive(grid_barrier);                               \
  wait_for(grid_barrier, turn += groups);             \
  join_s_parts(part, s, s_parts, layer);
#else
#define GRID_BARRIERS (5 + HEAD_BARRIERS)
#define MAKE_S(part)
#endif

__attribute__((reqd_work_group_size(GROUP, 1, 1))) __kernel void decode_layers(
    __global float* x, __global float* heads, __global float* parts, __global float* hidden,
    __global float* output, __global float* s_parts, __global const ulong* addresses,
    __global const int* position, __global const int* last, __global const int* slot,
    __global const int* pages, __global volatile uint* grid_barrier, DecodeProblem problem) {
  const uint layers = problem.layers;
  const float epsilon = problem.epsilon;
  __local float input[LOCAL_FLOATS] __attribute__((aligned(16)));
  __local float scratch[TEAM_SCRATCH(2)];
  __local float s[MAX_RANKS], factors[2 * H * SPLITS];
  __local ulong table[MAX_LAYERS * ADDRESSES];
  for (uint i = get_local_id(0); i < layers * ADDRESSES; i += GROUP) table[i] = addresses[i];
  barrier(CLK_LOCAL_MEM_FENCE);  // the table is complete
  const uint groups = get_num_groups(0);
#ifdef POST_NORMS
  __local float stream[D] __attribute__((aligned(16)));
  for (uint i = get_local_id(0); i < D / 4; i += GROUP) {
    ((__local float4*)stream)[i] = ((__global const float4*)x)[i];
  }
  const Row row = {output, heads, hidden, position[0], (uint)slot[0], problem.S};
  const float multiplier = 1.0f;
#else
  __global float* stream = x;
  const Row row = {x, heads, hidden, position[0], (uint)slot[0], problem.S};
  const float multiplier = problem.multiplier;
#endif
  uint turn = arrivals_before(grid_barrier, groups * GRID_BARRIERS * layers);
  Vec8Pair ahead[AHEAD];
  load_ahead(ahead, HEADS, table, pair_of(HEADS, 0));
  uint l = 0;
  do {
    __local const ulong* layer = table + l * ADDRESSES;
    float factor = load_normed(input, stream, FLOATS(INPUT_NORM), epsilon, scratch);
    MAKE_S(HEADS)
    multiply(HEADS, ahead, layer, &row, input, factor, s, scratch);
    arrive(grid_barrier);
    wait_for(grid_barrier, turn += groups);  // q and the cache's new row are complete

#ifdef HEAD_NORMS
    finish_heads(layer, heads, row.position, row.slot, row.S, epsilon, input, scratch);
    arrive(grid_barrier);
    wait_for(grid_barrier, turn += groups);  // the heads are normalised
#endif
    attend(parts, layer, heads, INTEGERS(FIRST_KEY)[0], last[0], problem.scale,
           PAGES_ARGUMENT input, scratch);
    arrive(grid_barrier);
    load_ahead(ahead, O, layer, pair_of(O, 0));
    wait_for(grid_barrier, turn += groups);  // all parts of attention are written

    load_joined(input, factors, parts);
    MAKE_S(O)
    multiply(O, ahead, layer, &row, input, multiplier, s, scratch);
    arrive(grid_barrier);
    load_ahead(ahead, GATES, layer, pair_of(GATES, 0));
    wait_for(grid_barrier, turn += groups);  // x or output is complete

#ifdef POST_NORMS
    add_normed(stream, output, FLOATS(ATTENTION_POST_NORM), problem, scratch);
#endif
    factor = load_normed(input, stream, FLOATS(OUTPUT_NORM), epsilon, scratch);
    MAKE_S(GATES)
    multiply(GATES, ahead, layer, &row, input, factor, s, scratch);
    arrive(grid_barrier);
    load_ahead(ahead, DOWN, layer, pair_of(DOWN, 0));
    wait_for(grid_barrier, turn += groups);  // hidden is complete

    load_row(input, hidden, F);
    MAKE_S(DOWN)
    multiply(DOWN, ahead, layer, &row, input, multiplier, s, scratch);
    arrive(grid_barrier);
    if (l + 1 < layers) load_ahead(ahead, HEADS, layer + ADDRESSES, pair_of(HEADS, 0));
    wait_for(grid_barrier, turn += groups);  // x or output is complete
#ifdef POST_NORMS
    add_normed(stream, output, FLOATS(FEED_FORWARD_POST_NORM), problem, scratch);
#endif
  } while (++l < layers);
#ifdef POST_NORMS
  for (uint i = get_local_id(0); i < D / 4 && get_group_id(0) == 0; i += GROUP) {
    ((__global float4*)x)[i] = ((__local const float4*)stream)[i];
  }
#endif
  if (get_group_id(0) == 0) end_launch(grid_barrier);
}
