// decode_layers_cpu: all blocks of a transformer for one row over its cache, in one launch.
//
//   for each layer:  h = rms_norm(x);  q, k, v = h w^T;  q, k rotated;  k, v to the cache
//                    x += attention(q, keys, values) w_o^T
//                    h = rms_norm(x);  x += (silu(h w_gate^T) (h w_up^T)) w_down^T
//
// Shapes  x [D], updated; q [H, E]; parts [H, splits, E + 2]; joined [groups, H, E]; hidden [F];
//         rope_table [P, E / 2, 2]; keys, values [S, G, E]; weights [outputs, inputs], packed
// Types   weights one quantised type, packed, all else f32; position, first, last [1] i32
// Work    co-resident work-groups of one item, over which heads, keys and panels are distributed,
//         with a grid barrier after each part (grid_barrier_cpu.clh). OpenCL does not guarantee
//         co-resident groups: only for devices known to run that many (decode_layers.hpp). If a
//         group does not arrive, grid_barrier[1] is set and all return.
// Local   scratch: a row of integers (gemm_int8_cpu.clh), or the scratch of
//         attention_decode_cpu.clh
// Cost    reads every weight and the cache's rows first .. last once
// Numerics  bit-identical to the kernels of rms_norm, gemm_skinny_int8, rope, attention_decode and
//         swiglu
//! clc: build on avx512_vnni: WEIGHT_TYPE={WEIGHT_Q4_0,WEIGHT_Q4_1,WEIGHT_Q8_0} WEIGHT_PACKED
//!     KEYS=64
//! clc: build on avx2: WEIGHT_TYPE={WEIGHT_Q4_0,WEIGHT_Q4_1,WEIGHT_Q8_0} WEIGHT_PACKED KEYS=64
//!     INT8_AVX2
//! clc: build on avx2: WEIGHT_TYPE={WEIGHT_Q4_0,WEIGHT_Q4_1,WEIGHT_Q8_0} WEIGHT_PACKED KEYS=64
//!     INT8_AVX_VNNI
#include "attention/attention_decode_cpu.clh"
#include "decode/decode_dims_cpu.clh"
#include "decode/decode_layers_table.clh"
#include "decode/decode_problem.clh"
#include "gemm/cpu/gemm_int8_cpu.clh"
#include "grid_barrier_cpu.clh"
#include "rowwise/rms_norm_scale_cpu.clh"
#include "rowwise/rope_rotate_cpu.clh"
#include "rowwise/swiglu16.clh"

uint share_begin(uint n) { return n * get_group_id(0) / get_num_groups(0); }
uint share_end(uint n) { return n * (get_group_id(0) + 1) / get_num_groups(0); }

// Computes this group's heads of q, k and v, rotated, and stores k and v to the cache. row: the
// normalised x in integers.
void project_heads(__global const ulong* layer, __global float* q, __local const char* row, uint D,
                   uint H, uint G, uint E, __global const float* angles, int position, uint S) {
  for (uint head = share_begin(H + 2 * G); head < share_end(H + 2 * G); ++head) {
    const int is_q = head < H, is_k = !is_q && head < H + G;
    const uint n = is_q ? head : is_k ? head - H : head - H - G;
    if (!is_q && (uint)position >= S) continue;
    __global float* out = is_q ? q : FLOATS(is_k ? KEYS_CACHE : VALUES_CACHE) +
                                         (size_t)position * G * E;
    __global const uchar* w = WEIGHTS(is_q ? Q_WEIGHT : is_k ? K_WEIGHT : V_WEIGHT);
    for (uint i = 0; i < E; i += PACKED_ROWS) {
      // clc: allow index-overflow below D
      vstore16(packed_dot(weight_row(w, n * E + i, D), row, D), 0, out + n * E + i);
    }
    if (is_q || is_k) {
      // clc: allow index-overflow below D
      rotate_token(out + n * E, out + n * E, angles, 1, E, E / 2, 1, E / 2, 1.0f);
    }
  }
}

// Adds this group's outputs of a product to x.
void add_product(__global float* x, __global const uchar* w, __local const char* row, uint N,
                 uint K) {
  for (uint panel = share_begin(N / PACKED_ROWS); panel < share_end(N / PACKED_ROWS); ++panel) {
    const uint n = panel * PACKED_ROWS;
    vstore16(packed_dot(weight_row(w, n, K), row, K) + vload16(0, x + n), 0, x + n);
  }
}

// Computes this group's outputs of the gated product.
void gate_and_up(__global float* hidden, __global const ulong* layer, __local const char* row,
                 uint F, uint D) {
  for (uint panel = share_begin(F / PACKED_ROWS); panel < share_end(F / PACKED_ROWS); ++panel) {
    const uint n = panel * PACKED_ROWS;
    const float16 gate = packed_dot(weight_row(WEIGHTS(GATE_WEIGHT), n, D), row, D);
    const float16 up = packed_dot(weight_row(WEIGHTS(UP_WEIGHT), n, D), row, D);
    vstore16(swiglu16(gate, up), 0, hidden + n);
  }
}

__attribute__((reqd_work_group_size(1, 1, 1))) __kernel void decode_layers(
    __global float* x, __global float* q, __global float* parts, __global float* joined,
    __global float* hidden, __global const ulong* addresses, __global const float* rope_table,
    __global const int* position, __global const int* first, __global const int* last,
    __global volatile int* grid_barrier, DecodeProblem problem, DecodeDims dims,
    __local char* scratch) {
  const uint D = dims.D, F = dims.F, H = dims.H, G = dims.G, E = dims.E, splits = dims.splits;
  const float epsilon = problem.epsilon;
  const int at = position[0];
  __global const float* angles = rope_table + (long)at * E;
  __global float* attention = joined + get_group_id(0) * H * E;
  GridPhase mine = {0, MAX_SPINS};
  for (uint l = 0; l < problem.layers; ++l) {
    __global const ulong* layer = addresses + l * ADDRESSES;
    round_normed_row(scratch, x, FLOATS(INPUT_NORM), row_scale(x, D, epsilon), D);
    project_heads(layer, q, scratch, D, H, G, E, angles, at, problem.S);
    if (!grid_sync(grid_barrier, &mine)) return;  // q and the cache's new row are complete

    // Round robin: if some splits are empty, no group gets more than its share.
    for (uint unit = get_group_id(0); unit < G * splits; unit += get_num_groups(0)) {
      attend_split(parts, q, FLOATS(KEYS_CACHE), FLOATS(VALUES_CACHE), first, last, H, G, E,
                   problem.scale, splits, unit / G, unit % G, 0, (__local float*)scratch);
    }
    if (!grid_sync(grid_barrier, &mine)) return;  // all parts of attention are written

    for (uint h = 0; h < H; ++h) {
      // clc: allow index-overflow below D
      join_splits(attention + h * E, parts + (size_t)h * splits * (E + 2), E, splits);
    }
    round_row(scratch, attention, H * E);
    add_product(x, WEIGHTS(O_WEIGHT), scratch, D, H * E);
    if (!grid_sync(grid_barrier, &mine)) return;  // x is complete

    round_normed_row(scratch, x, FLOATS(OUTPUT_NORM), row_scale(x, D, epsilon), D);
    gate_and_up(hidden, layer, scratch, F, D);
    if (!grid_sync(grid_barrier, &mine)) return;  // hidden is complete

    round_row(scratch, hidden, F);
    add_product(x, WEIGHTS(DOWN_WEIGHT), scratch, D, F);
    if (!grid_sync(grid_barrier, &mine)) return;  // x is complete
  }
}
