// decode_layers_cpu: all blocks of a transformer for M rows, each over its own keys of the cache, in
// one launch.
//
//   for each layer:  h = rms_norm(x);  q, k, v = h w^T + bias;  q, k normalised and rotated;
//                    k, v to row `slot` of the cache
//                    x += multiplier post_norm(attention(q, keys, values) w_o^T)
//                    h = rms_norm(x)
//                    x += multiplier post_norm((silu(h w_gate^T) (h w_up^T)) w_down^T)
//
// With -D ADAPTER_TYPE each product has the low-rank term of the row's adapter
// (decode_adapters_cpu.clh).
//
// Without post-norms all groups share x. With them, products write their output to `output`, and
// every group adds its norm to a residual stream of its own, the same in all groups: the next norm
// needs the whole stream, and a stream for all would need another grid barrier.
//
// Shapes  x [M, D], updated; heads [M (H + 2 G), E]: q of all rows, then k and v of each row, as they
//         are before they are stored; parts [M, H, splits, E + 2]; joined [groups, M, H, E]; hidden [M, F];
//         streams [groups, M, D] and output [M, D], with post-norms; normed [groups, M, D] and
//         s [3, M, R], with adapters; rope tables [P, W / 2, 2]; keys, values [S, G, E]; weights
//         [outputs, inputs], packed
// Types   weights one quantised type, packed; keys and values of -D KEY_TYPE: f32, bf16, f16
//         or q8_0 (q8_0_blocks.clh); all else f32; position, first, last, slot [M] i32; page tables
//         and table_of i32 (attention/paged_keys.clh); row_groups [M, 4] (gemm/gemm_epilogue.clh)
// Work    co-resident work-groups of one item, over which heads, keys and panels are distributed,
//         with a grid barrier after each part (grid_barrier_cpu.clh). Each group converts all rows
//         to integers for itself. OpenCL does not guarantee co-resident groups: only for devices
//         known to run that many (decode_layers.hpp). If a group does not arrive, grid_barrier[1]
//         is set and all return.
// Local   scratch: M rows of integers (gemm_int8_cpu.clh), or the scratch of
//         attention_decode_cpu.clh
// Cost    reads every weight and the keys first .. last of each row once
// Numerics  bit-identical to the kernels of rms_norm, gemm_skinny_int8, grouped_shrink, rope,
//         attention_decode, swiglu (with -D GELU gelu in place of silu) and add; what a row gets
//         depends on the others by `splits` only. -D SOFT_CAP: scores are capped (soft_cap.clh)
//! clc: build on avx512_vnni: WEIGHT_TYPE={WEIGHT_Q4_0,WEIGHT_Q4_1,WEIGHT_Q8_0} WEIGHT_PACKED
//!     KEYS=64 PAGE=16 KEY_TYPE={f32,bf16,f16,q8_0}
//! clc: build on avx512_vnni: WEIGHT_TYPE=WEIGHT_Q8_0 WEIGHT_PACKED KEYS=64 PAGE=16 KEY_TYPE=f32 GELU
//! clc: build on avx512_vnni: WEIGHT_TYPE=WEIGHT_Q8_0 WEIGHT_PACKED KEYS=64 PAGE=16 KEY_TYPE=f32
//!     SOFT_CAP=50.0f
//! clc: build on avx2: WEIGHT_TYPE={WEIGHT_Q4_0,WEIGHT_Q4_1,WEIGHT_Q8_0} WEIGHT_PACKED KEYS=64
//!     KEY_TYPE=bf16 INT8_AVX2
//! clc: build on avx2: WEIGHT_TYPE={WEIGHT_Q4_0,WEIGHT_Q4_1,WEIGHT_Q8_0} WEIGHT_PACKED KEYS=64
//!     KEY_TYPE=f32 INT8_AVX_VNNI
//! clc: build on avx512_vnni: WEIGHT_TYPE=WEIGHT_Q4_1 WEIGHT_PACKED KEYS=64 PAGE=16 KEY_TYPE=bf16
//!     ADAPTER_TYPE={f32,bf16} MAX_ROWS=16
#define PERMUTES_BF16
#include "attention/attention_decode_cpu.clh"
#include "decode/decode_dims_cpu.clh"
#include "decode/decode_layers_table.clh"
#include "decode/decode_problem.clh"
#include "gemm/cpu/gemm_int8_cpu.clh"
#include "decode/decode_adapters_cpu.clh"
#include "grid_barrier_cpu.clh"
#include "rowwise/rms_norm_scale_cpu.clh"
#include "rowwise/rope_rotate_cpu.clh"
#include "rowwise/swiglu16.clh"

// The projections of a layer, in the order of the table.
enum { OF_Q, OF_K, OF_V, OF_O, OF_GATE, OF_UP, OF_DOWN };
#define WEIGHTS_OF(p) WEIGHTS((p) < OF_GATE ? Q_WEIGHT + (p) : GATE_WEIGHT + (p) - OF_GATE)

uint share_begin(uint n) { return n * get_group_id(0) / get_num_groups(0); }
uint share_end(uint n) { return n * (get_group_id(0) + 1) / get_num_groups(0); }

// x = x scale w, of `width` elements, a multiple of 16.
void scale_row(__global float* x, __global const float* w, float scale, uint width) {
  for (uint i = 0; i < width; i += 16) {
    vstore16(vload16(0, x + i) * scale * vload16(0, w + i), 0, x + i);
  }
}

void copy_row(__global float* to, __global const float* from, uint D) {
  for (uint i = 0; i < D; i += 16) vstore16(vload16(0, from + i), 0, to + i);
}

// The integers of M rows of x.
void round_rows(__local char* to, __global const float* x, uint M, uint width) {
  for (uint m = 0; m < M; ++m) round_row(to + m * ROW_BYTES(width), x + (size_t)m * width, width);
}

// The integers of M normalised rows of x; writes the rows to `normed`, unless it is null.
void round_normed_rows(__local char* to, __global float* normed, __global const float* x,
                       __global const float* w, uint M, uint D, float epsilon) {
  for (uint m = 0; m < M; ++m) {
    __global const float* row = x + (size_t)m * D;
    __global float* own_normed = normed != 0 ? normed + (size_t)m * D : 0;
    round_normed_row(to + m * ROW_BYTES(D), own_normed, row, w, row_scale(row, D, epsilon), D);
  }
}

// The outputs n to n + 15 of projection p, for `count` rows from m on, rows_at_once(). i: its place
// among the projections with its input, whose rows are `rows`, in integers.
void project_rows(float16* y, Adapters* of, __global const ulong* layer, uint p, uint i,
                  __local const char* rows, uint m, uint count, uint n, uint N, uint inputs) {
  const Prefetches fetched = fetch_during(of, i, m, count, n, N, inputs / 32);
  packed_dots_fetching(y, weight_row(WEIGHTS_OF(p), n, inputs), rows + m * ROW_BYTES(inputs), inputs,
                       count, fetched);
  add_terms(y, of, i, m, count, n, N);
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
  if (matrix == OF_V) return;
  if (layer[Q_NORM + matrix]) {
    scale_row(head, FLOATS(Q_NORM + matrix), row_scale(head, E, epsilon), E);
  }
  if (layer[ROPE_TABLE] == 0) return;
  // The position of a row of padding is -1.
  __global const float* angles = FLOATS(ROPE_TABLE + matrix) + (long)max(position, 0) * W;
  // clc: allow index-overflow below D
  rotate_token(head, head, angles, 1, E, W / 2, 1, W / 2, 1.0f);
}

// Head `head` of row m: of q, then of k, then of v.
__global float* head_of(__global float* heads, DecodeDims dims, uint m, uint head) {
  const uint H = dims.H, G = dims.G;
  const size_t at = head < H ? m * H + head : dims.M * H + m * 2 * G + head - H;
  return heads + at * dims.E;
}

// Computes this group's heads of q, k and v of all rows, and stores k and v to the cache. rows: the
// normalised x in integers.
void project_heads(Adapters* of, __global const ulong* layer, __global float* heads,
                   __local const char* rows, DecodeDims dims, DecodeProblem problem,
                   __global const int* position, __global const int* slot) {
  const uint D = dims.D, H = dims.H, G = dims.G, E = dims.E, M = of->M;
  for (uint head = share_begin(H + 2 * G); head < share_end(H + 2 * G); ++head) {
    const uint matrix = head < H ? OF_Q : head < H + G ? OF_K : OF_V;
    const uint n = matrix == OF_Q ? head : matrix == OF_K ? head - H : head - H - G;
    const uint N = (matrix == OF_Q ? H : G) * E;
    for (uint e = 0; e < E; e += PACKED_ROWS) {
      for (uint m = 0; m < M;) {
        const uint count = rows_at_once(M - m);
        float16 y[MOST_ROWS];
        project_rows(y, of, layer, matrix, matrix, rows, m, count, n * E + e, N, D);
        for (uint j = 0; j < count; ++j, ++m) {
          vstore16(y[j], 0, head_of(heads, dims, m, head) + e);
        }
      }
    }
    for (uint m = 0; m < M; ++m) {
      __global float* out = head_of(heads, dims, m, head);
      finish_head(out, layer, matrix, n, E, dims.W, problem.epsilon, position[m]);
      if (matrix == OF_Q || (uint)slot[m] >= problem.S) continue;
      store_cache_row(
          CACHE(KEYS_CACHE + matrix - OF_K) + WORDS(KEY_TYPE, ((size_t)slot[m] * G + n) * E), out,
          (int)E);
    }
  }
}

// Computes this group's outputs of projection p for all rows: adds `multiplier` times them to x, or
// if multiplier is 0 writes them to `output`.
void add_product(Adapters* of, __global const ulong* layer, uint p, __global float* x,
                 __global float* output, float multiplier, __local const char* rows, uint N,
                 uint inputs) {
  for (uint panel = share_begin(N / PACKED_ROWS); panel < share_end(N / PACKED_ROWS); ++panel) {
    const uint n = panel * PACKED_ROWS;
    for (uint m = 0; m < of->M;) {
      const uint count = rows_at_once(of->M - m);
      float16 y[MOST_ROWS];
      project_rows(y, of, layer, p, 0, rows, m, count, n, N, inputs);
      for (uint j = 0; j < count; ++j, ++m) {
        const size_t at = (size_t)m * N + n;
        if (multiplier == 0.0f) {
          vstore16(y[j], 0, output + at);
        } else {
          vstore16(fma((float16)(multiplier), y[j], vload16(0, x + at)), 0, x + at);
        }
      }
    }
  }
}

// stream += multiplier rms_norm(output), of M rows
void add_normed(__global float* stream, __global const float* output, __global const float* w,
                float multiplier, uint M, uint D, float epsilon) {
  for (uint m = 0; m < M; ++m, stream += D, output += D) {
    const float scale = row_scale(output, D, epsilon);
    for (uint i = 0; i < D; i += 16) {
      const float16 normed = vload16(0, output + i) * scale * vload16(0, w + i);
      vstore16(fma((float16)(multiplier), normed, vload16(0, stream + i)), 0, stream + i);
    }
  }
}

// Computes this group's outputs of the gated product for all rows.
void gate_and_up(Adapters* of, __global float* hidden, __global const ulong* layer,
                 __local const char* rows, uint F, uint D) {
  for (uint panel = share_begin(F / PACKED_ROWS); panel < share_end(F / PACKED_ROWS); ++panel) {
    const uint n = panel * PACKED_ROWS;
    for (uint m = 0; m < of->M;) {
      const uint count = rows_at_once(of->M - m);
      float16 gate[MOST_ROWS], up[MOST_ROWS];
      project_rows(gate, of, layer, OF_GATE, 0, rows, m, count, n, F, D);
      project_rows(up, of, layer, OF_UP, 1, rows, m, count, n, F, D);
      for (uint j = 0; j < count; ++j, ++m) {
        vstore16(swiglu16(gate[j], up[j]), 0, hidden + (size_t)m * F + n);
      }
    }
  }
}

__attribute__((reqd_work_group_size(1, 1, 1))) __kernel void decode_layers(
    __global float* x, __global float* heads, __global float* parts, __global float* joined,
    __global float* hidden, __global float* streams, __global float* output,
    __global float* normed, __global float* s, __global const ulong* addresses,
    __global const int* position, __global const int* last, __global const int* slot,
    __global const int* tables, __global const int* table_of, __global const uint* row_groups,
    __global volatile int* grid_barrier, DecodeProblem problem, DecodeDims dims,
    __local char* scratch) {
  const uint M = dims.M, D = dims.D, F = dims.F, H = dims.H, G = dims.G, E = dims.E;
  const uint splits = dims.splits, table_step = dims.table_step;
  const float epsilon = problem.epsilon;
  const int post_norms = dims.post_norms;
  const float multiplier = post_norms ? 0.0f : problem.multiplier;
  Adapters adapters, *of = &adapters;
  START_ADAPTERS(of, M, dims.R, s, row_groups)
  __global float* attention = joined + get_group_id(0) * M * H * E;
  __global float* own_normed = dims.R != 0 ? normed + get_group_id(0) * M * D : 0;
  __global float* stream = x;
  if (post_norms) {
    stream = streams + get_group_id(0) * M * D;
    copy_row(stream, x, M * D);
  }
  GridPhase mine = {0, MAX_SPINS};
  for (uint l = 0; l < problem.layers; ++l) {
    __global const ulong* layer = addresses + l * ADDRESSES;
    const InputProjections of_qkv = {layer, OF_Q, 3, D}, of_o = {layer, OF_O, 1, H * E},
                           of_gate = {layer, OF_GATE, 2, D}, of_down = {layer, OF_DOWN, 1, F};
    round_normed_rows(scratch, own_normed, stream, FLOATS(INPUT_NORM), M, D, epsilon);
    if (shrink_rows(of, of_qkv, own_normed)) {
      if (!grid_sync(grid_barrier, &mine)) return;  // s of q, k and v is complete
    }
    find_terms(of, layer, OF_Q, 0, H * E);
    find_terms(of, layer, OF_K, 1, G * E);
    find_terms(of, layer, OF_V, 2, G * E);
    plan_shrink(of, of_o, (H + 2 * G) * E);
    project_heads(of, layer, heads, scratch, dims, problem, position, slot);
    if (!grid_sync(grid_barrier, &mine)) return;  // q and the cache's new rows are complete

    // Round robin: if some splits are empty, no group gets more than its share.
    for (uint unit = get_group_id(0); unit < M * G * splits; unit += get_num_groups(0)) {
      const uint m = unit / splits / G;
      FIND_PAGES(m)
      attend_split(parts, heads, CACHE(KEYS_CACHE), CACHE(VALUES_CACHE),
                   PAGES_ARGUMENT INTEGERS(FIRST_KEY), last, H, G, E, problem.scale, splits,
                   unit % splits, unit / splits % G, m, (__local float*)scratch);
    }
    if (!grid_sync(grid_barrier, &mine)) return;  // all parts of attention are written

    for (uint h = 0; h < M * H; ++h) {
      // clc: allow index-overflow below M D
      join_splits(attention + h * E, parts + (size_t)h * splits * (E + 2), E, splits);
    }
    round_rows(scratch, attention, M, H * E);
    if (shrink_rows(of, of_o, attention)) {
      if (!grid_sync(grid_barrier, &mine)) return;  // s of o is complete
    }
    find_terms(of, layer, OF_O, 0, D);
    plan_shrink(of, of_gate, D);
    add_product(of, layer, OF_O, x, output, multiplier, scratch, D, H * E);
    if (!grid_sync(grid_barrier, &mine)) return;  // x or output is complete

    if (post_norms) {
      add_normed(stream, output, FLOATS(ATTENTION_POST_NORM), problem.multiplier, M, D, epsilon);
    }
    round_normed_rows(scratch, own_normed, stream, FLOATS(OUTPUT_NORM), M, D, epsilon);
    if (shrink_rows(of, of_gate, own_normed)) {
      if (!grid_sync(grid_barrier, &mine)) return;  // s of gate and up is complete
    }
    find_terms(of, layer, OF_GATE, 0, F);
    find_terms(of, layer, OF_UP, 1, F);
    plan_shrink(of, of_down, 2 * F);
    gate_and_up(of, hidden, layer, scratch, F, D);
    if (!grid_sync(grid_barrier, &mine)) return;  // hidden is complete

    round_rows(scratch, hidden, M, F);
    if (shrink_rows(of, of_down, hidden)) {
      if (!grid_sync(grid_barrier, &mine)) return;  // s of down is complete
    }
    find_terms(of, layer, OF_DOWN, 0, D);
    const InputProjections next = {addresses + (l + 1) % problem.layers * ADDRESSES, OF_Q, 3, D};
    plan_shrink(of, next, D);
    add_product(of, layer, OF_DOWN, x, output, multiplier, scratch, D, F);
    if (!grid_sync(grid_barrier, &mine)) return;  // x or output is complete
    if (post_norms) {
      add_normed(stream, output, FLOATS(FEED_FORWARD_POST_NORM), problem.multiplier, M, D, epsilon);
    }
  }
  if (post_norms && get_group_id(0) == 0) copy_row(x, stream, M * D);
}
