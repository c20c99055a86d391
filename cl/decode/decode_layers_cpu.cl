// decode_layers_cpu: all blocks of a transformer for one row over its cache, in one launch.
//
//   for each layer:  h = rms_norm(x);  q, k, v = h w^T + bias;  q, k normalised and rotated;
//                    k, v to row `slot` of the cache
//                    x += multiplier post_norm(attention(q, keys, values) w_o^T)
//                    h = rms_norm(x)
//                    x += multiplier post_norm((silu(h w_gate^T) (h w_up^T)) w_down^T)
//
// Without post-norms all groups share x. With them, products write their output to `output`, and
// every group adds its norm to a residual stream of its own, the same in all groups: the next norm
// needs the whole stream, and a stream for all would need another grid barrier.
//
// Shapes  x [D], updated; heads [H + 2 G, E]: q, and k and v as they are before they are stored;
//         parts [H, splits, E + 2]; joined [groups, H, E]; hidden [F];
//         streams [groups, D] and output [D], with post-norms; rope tables [P, W / 2, 2]; keys,
//         values [S, G, E]; weights [outputs, inputs], packed
// Types   weights one quantised type, packed; keys and values of -D KEY_TYPE: f32, bf16, f16
//         or q8_0 (q8_0_blocks.clh); all else f32; position, first, last, slot [1] i32; pages []
//         i32: the row's page table (attention/paged_keys.clh)
// Work    co-resident work-groups of one item, over which heads, keys and panels are distributed,
//         with a grid barrier after each part (grid_barrier_cpu.clh). OpenCL does not guarantee
//         co-resident groups: only for devices known to run that many (decode_layers.hpp). If a
//         group does not arrive, grid_barrier[1] is set and all return.
// Local   scratch: a row of integers (gemm_int8_cpu.clh), or the scratch of
//         attention_decode_cpu.clh
// Cost    reads every weight and the keys first .. last once
// Numerics  bit-identical to the kernels of rms_norm, gemm_skinny_int8, rope, attention_decode,
//         swiglu (with -D GELU gelu in place of silu) and add. -D SOFT_CAP: scores are capped
//         (soft_cap.clh)
//! clc: build on avx512_vnni: WEIGHT_TYPE={WEIGHT_Q4_0,WEIGHT_Q4_1,WEIGHT_Q8_0} WEIGHT_PACKED
//!     KEYS=64 PAGE=16 KEY_TYPE={f32,bf16,f16,q8_0}
//! clc: build on avx512_vnni: WEIGHT_TYPE=WEIGHT_Q8_0 WEIGHT_PACKED KEYS=64 PAGE=16 KEY_TYPE=f32 GELU
//! clc: build on avx512_vnni: WEIGHT_TYPE=WEIGHT_Q8_0 WEIGHT_PACKED KEYS=64 PAGE=16 KEY_TYPE=f32
//!     SOFT_CAP=50.0f
//! clc: build on avx2: WEIGHT_TYPE={WEIGHT_Q4_0,WEIGHT_Q4_1,WEIGHT_Q8_0} WEIGHT_PACKED KEYS=64
//!     KEY_TYPE=bf16 INT8_AVX2
//! clc: build on avx2: WEIGHT_TYPE={WEIGHT_Q4_0,WEIGHT_Q4_1,WEIGHT_Q8_0} WEIGHT_PACKED KEYS=64
//!     KEY_TYPE=f32 INT8_AVX_VNNI
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

// x = x scale w, of `width` elements, a multiple of 16.
void scale_row(__global float* x, __global const float* w, float scale, uint width) {
  for (uint i = 0; i < width; i += 16) {
    vstore16(vload16(0, x + i) * scale * vload16(0, w + i), 0, x + i);
  }
}

// Adds the bias of a head, then normalises and rotates it if it is one of q or k. matrix: 0, 1, 2
// for q, k and v.
void finish_head(__global float* head, __global const ulong* layer, uint matrix, uint n, uint E,
                 uint W, float epsilon, int position) {
  if (layer[Q_BIAS + matrix]) {
    // clc: allow index-overflow below D
    __global const float* bias = FLOATS(Q_BIAS + matrix) + n * E;
    for (uint i = 0; i < E; i += 16) vstore16(vload16(0, head + i) + vload16(0, bias + i), 0, head + i);
  }
  if (matrix == 2) return;
  if (layer[Q_NORM + matrix]) {
    scale_row(head, FLOATS(Q_NORM + matrix), row_scale(head, E, epsilon), E);
  }
  if (layer[ROPE_TABLE] == 0) return;
  __global const float* angles = FLOATS(ROPE_TABLE + matrix) + (long)position * W;
  // clc: allow index-overflow below D
  rotate_token(head, head, angles, 1, E, W / 2, 1, W / 2, 1.0f);
}

// Computes this group's heads of q, k and v, and stores k and v to the cache. row: the normalised x
// in integers.
void project_heads(__global const ulong* layer, __global float* heads, __local const char* row,
                   DecodeDims dims, float epsilon, int position, uint slot, uint S) {
  const uint D = dims.D, H = dims.H, G = dims.G, E = dims.E;
  for (uint head = share_begin(H + 2 * G); head < share_end(H + 2 * G); ++head) {
    const uint matrix = head < H ? 0 : head < H + G ? 1 : 2;
    const uint n = matrix == 0 ? head : matrix == 1 ? head - H : head - H - G;
    if (matrix > 0 && slot >= S) continue;
    // clc: allow index-overflow below D
    __global float* out = heads + head * E;
    __global const uchar* w = WEIGHTS(Q_WEIGHT + matrix);
    for (uint i = 0; i < E; i += PACKED_ROWS) {
      // clc: allow index-overflow below D
      vstore16(packed_dot(weight_row(w, n * E + i, D), row, D), 0, out + i);
    }
    finish_head(out, layer, matrix, n, E, dims.W, epsilon, position);
    if (matrix == 0) continue;
    store_cache_row(CACHE(KEYS_CACHE + matrix - 1) + WORDS(KEY_TYPE, ((size_t)slot * G + n) * E),
                    out, (int)E);
  }
}

// Computes this group's outputs of a product: adds `multiplier` times them to x, or if multiplier is
// 0 writes them to `output`.
void add_product(__global float* x, __global float* output, float multiplier,
                 __global const uchar* w, __local const char* row, uint N, uint K) {
  for (uint panel = share_begin(N / PACKED_ROWS); panel < share_end(N / PACKED_ROWS); ++panel) {
    const uint n = panel * PACKED_ROWS;
    const float16 y = packed_dot(weight_row(w, n, K), row, K);
    if (multiplier == 0.0f) {
      vstore16(y, 0, output + n);
    } else {
      vstore16(fma((float16)(multiplier), y, vload16(0, x + n)), 0, x + n);
    }
  }
}

// stream += multiplier rms_norm(output)
void add_normed(__global float* stream, __global const float* output, __global const float* w,
                float multiplier, uint D, float epsilon) {
  const float scale = row_scale(output, D, epsilon);
  for (uint i = 0; i < D; i += 16) {
    const float16 normed = vload16(0, output + i) * scale * vload16(0, w + i);
    vstore16(fma((float16)(multiplier), normed, vload16(0, stream + i)), 0, stream + i);
  }
}

void copy_row(__global float* to, __global const float* from, uint D) {
  for (uint i = 0; i < D; i += 16) vstore16(vload16(0, from + i), 0, to + i);
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
    __global float* x, __global float* heads, __global float* parts, __global float* joined,
    __global float* hidden, __global float* streams, __global float* output,
    __global const ulong* addresses, __global const int* position, __global const int* last,
    __global const int* slot, __global const int* pages, __global volatile int* grid_barrier, DecodeProblem problem, DecodeDims dims,
    __local char* scratch) {
  const uint D = dims.D, F = dims.F, H = dims.H, G = dims.G, E = dims.E, splits = dims.splits;
  const float epsilon = problem.epsilon;
  const int post_norms = dims.post_norms;
  const float multiplier = post_norms ? 0.0f : problem.multiplier;
  __global float* attention = joined + get_group_id(0) * H * E;
  __global float* stream = x;
  if (post_norms) {
    stream = streams + get_group_id(0) * D;
    copy_row(stream, x, D);
  }
  GridPhase mine = {0, MAX_SPINS};
  for (uint l = 0; l < problem.layers; ++l) {
    __global const ulong* layer = addresses + l * ADDRESSES;
    round_normed_row(scratch, stream, FLOATS(INPUT_NORM), row_scale(stream, D, epsilon), D);
    project_heads(layer, heads, scratch, dims, epsilon, position[0], (uint)slot[0],
                  problem.S);
    if (!grid_sync(grid_barrier, &mine)) return;  // q and the cache's new row are complete

    // Round robin: if some splits are empty, no group gets more than its share.
    for (uint unit = get_group_id(0); unit < G * splits; unit += get_num_groups(0)) {
      attend_split(parts, heads, CACHE(KEYS_CACHE), CACHE(VALUES_CACHE), PAGES_ARGUMENT
                   INTEGERS(FIRST_KEY), last, H, G, E, problem.scale, splits, unit / G, unit % G, 0,
                   (__local float*)scratch);
    }
    if (!grid_sync(grid_barrier, &mine)) return;  // all parts of attention are written

    for (uint h = 0; h < H; ++h) {
      // clc: allow index-overflow below D
      join_splits(attention + h * E, parts + (size_t)h * splits * (E + 2), E, splits);
    }
    round_row(scratch, attention, H * E);
    add_product(x, output, multiplier, WEIGHTS(O_WEIGHT), scratch, D, H * E);
    if (!grid_sync(grid_barrier, &mine)) return;  // x or output is complete

    if (post_norms) {
      add_normed(stream, output, FLOATS(ATTENTION_POST_NORM), problem.multiplier, D, epsilon);
    }
    round_normed_row(scratch, stream, FLOATS(OUTPUT_NORM), row_scale(stream, D, epsilon), D);
    gate_and_up(hidden, layer, scratch, F, D);
    if (!grid_sync(grid_barrier, &mine)) return;  // hidden is complete

    round_row(scratch, hidden, F);
    add_product(x, output, multiplier, WEIGHTS(DOWN_WEIGHT), scratch, D, F);
    if (!grid_sync(grid_barrier, &mine)) return;  // x or output is complete
    if (post_norms) {
      add_normed(stream, output, FLOATS(FEED_FORWARD_POST_NORM), problem.multiplier, D, epsilon);
    }
  }
  if (post_norms && get_group_id(0) == 0) copy_row(x, stream, D);
}
