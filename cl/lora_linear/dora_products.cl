// dora_products: the products of adapters' matrices with their weights, from which dora.cl computes
// the norms of rows, of all layers in one launch, on NVIDIA's matrix unit.
//
//   p [R, N] = a [R, K] w [N, K]^T   of each layer
// Shapes  a of all layers in `parameters` and p in `products`, at the element offsets that the
//         layers' words have (dora_layers.clh); weights: the addresses of w, one for each layer;
//         groups [column blocks, 2]: a block's layer and its first column. K is a multiple of 8, and
//         rows of a and w are aligned to 16 bytes
// Types   w bf16; a and p f32
// Work    a group of WARPS warps owns WARPS * WARP_COLUMNS columns and 16 ranks, one of rank_blocks
//         blocks, which are neighbours in the grid and share w in the cache. A warp owns
//         WARP_COLUMNS columns; a lane loads 8 consecutive steps of two ranks and of TILES columns,
//         those of the next STEPS while it multiplies (mma_m16n8k16)
// Tiles                 WARP_COLUMNS: w, 8 columns at a time
//                 STEPS |####|####|####|####|
//         16: a |##|  =  p, in registers             steps run over K; past it they are zeros
//         Ranks and columns past the last are copies of it, which are not stored.
// Options WARPS: of a group; TILES: of a warp, 8 columns each
// Local   none
// Cost    one read of each w; 2 R N K flops
// Numerics  a is multiplied as the sum of two bf16 values, within 2^-17 of it; their products with
//         w are exact in f32, and are summed as the unit does, steps in order
//! clc: build on mma: WARPS=4 TILES=4
#include "hopper/ampere.clh"
#include "hopper/warp_lanes.clh"
#include "inlined.clh"
#include "lora_linear/dora_layers.clh"

#if !defined(WARPS) || !defined(TILES)
#error "WARPS and TILES are required"
#endif
#define WARP_COLUMNS (8 * TILES)
#define STEPS 32
#define RANKS 16

// What a lane multiplies at once: 8 steps of ranks lane / 4 and 8 more, and of a column of each
// tile.
typedef struct {
  float4 low[2], high[2];
  uint4 w[TILES];
} Operands;

typedef struct {
  __global const float *low, *high;
  __global const ushort* w[TILES];
} Rows;

INLINED void load_operands(Operands* of, const Rows* rows, uint step, uint K) {
  const bool is_inside = step < K;
#pragma unroll
  for (uint i = 0; i < TILES; ++i) {
    of->w[i] = is_inside ? *(__global const uint4*)(rows->w[i] + step) : (uint4)(0);
  }
#pragma unroll
  for (uint i = 0; i < 2; ++i) {
    of->low[i] = is_inside ? *(__global const float4*)(rows->low + step + 4 * i) : (float4)(0.0f);
    of->high[i] = is_inside ? *(__global const float4*)(rows->high + step + 4 * i) : (float4)(0.0f);
  }
}

// Rounds two values to bf16, and what is left of them.
INLINED void split_pair(uint* pair, uint* rest, float2 values) {
  *pair = bf16_pair(values.x, values.y);
  *rest = bf16_pair(values.x - as_float(*pair << 16), values.y - as_float(*pair & 0xffff0000u));
}

// The order of steps in a sum is free: a lane's first four are operands of one product, its last
// four of another.
INLINED void multiply_operands(float* sums, const Operands* of) {
#pragma unroll
  for (uint part = 0; part < 2; ++part) {
    uint a[4], rest[4];
    split_pair(a, rest, of->low[part].xy);
    split_pair(a + 1, rest + 1, of->high[part].xy);
    split_pair(a + 2, rest + 2, of->low[part].zw);
    split_pair(a + 3, rest + 3, of->high[part].zw);
#pragma unroll
    for (uint i = 0; i < TILES; ++i) {
      const uint2 w = part == 0 ? of->w[i].xy : of->w[i].zw;
      mma_m16n8k16(sums + 4 * i, a, w.x, w.y);
      mma_m16n8k16(sums + 4 * i, rest, w.x, w.y);
    }
  }
}

// A lane's sums: ranks r and r + 8 of columns n, n + 1 and of those of the next tiles.
INLINED void store_sums(__global float* p, const float* sums, uint r, uint n, uint R, uint N) {
#pragma unroll
  for (uint i = 0; i < 4 * TILES; ++i) {
    const uint rank = r + i / 2 % 2 * 8, column = n + i / 4 * 8 + i % 2;
    if (rank < R && column < N) p[(size_t)rank * N + column] = sums[i];
  }
}

__attribute__((reqd_work_group_size(WARPS * WARP, 1, 1))) __kernel void dora_products(
    __global float* products, __global const float* parameters, __global const ulong* weights,
    __global const uint* layers, __global const uint* groups, uint rank_blocks) {
  const uint block = get_group_id(0) / rank_blocks, number = groups[2 * block];
  __global const uint* layer = layers + number * LAYER_WORDS;
  const uint K = layer[K_OF], N = layer[N_OF], R = layer[R_OF];
  const uint item = get_local_id(0), lane = item % WARP;
  const uint r0 = get_group_id(0) % rank_blocks * RANKS;
  const uint n0 = groups[2 * block + 1] + item / WARP * WARP_COLUMNS;
  if (r0 >= R || n0 >= N) return;
  __global const float* a = parameters + layer[A_AT];
  __global const ushort* w = (__global const ushort*)weights[number];
  Rows rows;
  rows.low = a + (size_t)min(r0 + lane / 4, R - 1) * K;
  rows.high = a + (size_t)min(r0 + lane / 4 + 8, R - 1) * K;
  float sums[4 * TILES];
#pragma unroll
  for (uint i = 0; i < TILES; ++i) {
    rows.w[i] = w + (size_t)min(n0 + 8 * i + lane / 4, N - 1) * K;
    for (uint j = 0; j < 4; ++j) sums[4 * i + j] = 0.0f;
  }
  const uint own = lane % 4 * 8;
  Operands now;
  load_operands(&now, &rows, own, K);
  for (uint step = 0; step < K; step += STEPS) {
    Operands next;
    load_operands(&next, &rows, step + STEPS + own, K);
    multiply_operands(sums, &now);
    now = next;
  }
  store_sums(products + layer[P_AT], sums, r0 + lane / 4, n0 + lane % 4 * 2, R, N);
}
