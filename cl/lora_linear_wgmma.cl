// lora_linear_wgmma: an adapter's gradients, and what passes back through it, on Hopper's matrix
// units.
//
//   parts[c] [R, K] = s [T, R]^T x [T, K] over chunk c of the rows
//   SHRINK             and of the same read of x, shrunk[g] [T, R] = x [T, K] b [R, K]^T over 256
//                      columns g
//   MEMBERS=2 or 3     the same for as many x_i [T, K_i], s_i and b_i of equal ranks: parts of one
//                      lie behind those of the one before, [member][c][R][K_i], and so do shrunk,
//                      by columns g of all members
// lora_sums adds them up: out += scale * sum of parts; shrunk_out [T, R] = shrink_scale * sum of
// shrunk.
// Shapes  x, s and b by their maps (cl/tensor_map.cl), which stand in this order, a member's
//         together, in boxes of 64 rows, 64, and RANKS; rows of shrunk are RANKS for each 64 of R
// Types   x, s and b bf16, read through their maps alone; shrunk_out bf16; all else f32
// Work    lora_gradient_wgmma: a work-group of three warp groups owns 512 columns, and a chunk of
//         chunk_boxes times 64 rows: one thread of the first starts copies of 64 rows of x and s
//         into a ring of STAGES; the two others own 256 columns each. Groups in dimension 2 own 64
//         ranks each. lora_sums: a work-group owns SUM_ELEMENTS elements, an item a slice of one's
//         parts.
// Options RANKS: 16, or 64 where R is more; STAGES
// Local   STAGES * 9 * 8 KB, with SHRINK 8 * RANKS * 128 bytes more, and barriers; SUM_ITEMS floats
// Tiles      64 rows: s^T |#| x |####|####|   ->  parts [RANKS][512], in registers
// Cost    2 T R K flops, twice that with SHRINK; one read of x for 64 ranks
// Numerics  products of bf16 are exact in f32; sums as the matrix unit makes them, parts added in a
//         fixed order: the same bits every run
#include "bf16_values.clh"
#include "hopper.clh"
#include "hopper_products.clh"
#if !defined(RANKS) || !defined(STAGES)
#error "RANKS and STAGES are required"
#endif

#ifndef MEMBERS
#define MEMBERS 1
#endif
#if MEMBERS > 1
#define OTHERS(type, name) type name##_1, type name##_2,
#define OF_MEMBER(name) (member == 0 ? name : member == 1 ? name##_1 : name##_2)
#else
#define OTHERS(type, name)
#define OF_MEMBER(name) name
#endif

#define SUM_ITEMS 256
#define SLICES 8
#define SUM_ELEMENTS (SUM_ITEMS / SLICES)
#define BOX_BYTES 8192  // 64 rows of 64 columns
#define GROUP_BOXES 4   // of a warp group
#define STRIP_BOXES (2 * GROUP_BOXES)
#define STAGE_BYTES ((STRIP_BOXES + 1) * BOX_BYTES)
#define RING_BYTES (STAGES * STAGE_BYTES)
#define MAP_BYTES 128
#define MEMBER_MAPS 3
#define STRIP_COLUMNS (STRIP_BOXES * 64)
#define STRIPS(columns) (((columns) + STRIP_COLUMNS - 1) / STRIP_COLUMNS)
#ifdef SHRINK
#define B_BYTES (RANKS * 128)
#else
#define B_BYTES 0
#endif

// Box `i` of x: its columns are the product's rows, its rows the steps.
#define GRADIENT_STEP(i, step)                                                          \
  TURNED_PRODUCT(RANKS)                                                                 \
  (sums##i, transposed_operand_at(x_at + i * BOX_BYTES) + step * NEXT_TRANSPOSED_STEPS, \
   transposed_operand_at(s_at) + step * NEXT_TRANSPOSED_STEPS, box > first || step > 0);
#define GRADIENT(i) GRADIENT_STEP(i, 0) GRADIENT_STEP(i, 1) GRADIENT_STEP(i, 2) GRADIENT_STEP(i, 3)
// Its rows are the product's, its columns the steps.
#define SHRINK_STEP(i, step)                                      \
  PRODUCT(RANKS)                                                  \
  (shrinks, operand_at(x_at + i * BOX_BYTES) + step * NEXT_STEPS, \
   operand_at(b_at + i * B_BYTES) + step * NEXT_STEPS, i + step > 0, "0");
#define SHRINKS(i) SHRINK_STEP(i, 0) SHRINK_STEP(i, 1) SHRINK_STEP(i, 2) SHRINK_STEP(i, 3)

// A lane's share of 64 columns k from k0 on, as rows of a product, and RANKS ranks.
__attribute__((always_inline)) void store_gradient(__global float* parts, const float* sums,
                                                   uint k0, uint K, uint ranks, uint lane) {
#pragma unroll
  for (uint i = 0; i < RANKS / 2; ++i) {
    const uint k = k0 + i / 2 % 2 * 8, r = i / 4 * 8 + 2 * (lane % 4) + i % 2;
    if (k < K && r < ranks) parts[(size_t)r * K + k] = sums[i];
  }
}

__attribute__((reqd_work_group_size(384, 1, 1))) __kernel void lora_gradient_wgmma(
    __global float* parts, __global float* shrunk, __global const uchar* maps,
    __global const ushort* x, OTHERS(__global const ushort*, x) __global const ushort* s,
    OTHERS(__global const ushort*, s) __global const ushort* b,
    OTHERS(__global const ushort*, b) uint T, uint R, uint K, OTHERS(uint, K) uint chunk_boxes) {
  __local uchar ring[RING_BYTES + STRIP_BOXES * B_BYTES] __attribute__((aligned(1024)));
  __local ulong barriers[2 * STAGES + 1];
  const uint full = shared_address(barriers), empty = full + 8 * STAGES,
             b_there = empty + 8 * STAGES;
  const uint item = get_local_id(0), r0 = get_group_id(2) * 64, strips = STRIPS(K);
#if MEMBERS > 1
  const uint strip = get_group_id(0), strips_1 = strips + STRIPS(K_1);
  const uint member = strip < strips ? 0 : strip < strips_1 ? 1 : 2;
  const uint strip_k = (strip - (member == 0   ? 0
                                 : member == 1 ? strips
                                               : strips_1)) *
                       STRIP_COLUMNS;
  maps += member * MEMBER_MAPS * MAP_BYTES;
  parts += (size_t)get_num_groups(1) * R * (member == 0 ? 0 : member == 1 ? K : K + K_1);
#else
  const uint strip_k = get_group_id(0) * STRIP_COLUMNS;
#endif
  const uint columns_of_x = OF_MEMBER(K);
  const uint first = get_group_id(1) * chunk_boxes;
  const uint end = min(first + chunk_boxes, (T + 63) / 64);
  if (item == 0) {
    for (uint i = 0; i < STAGES; ++i) {
      barrier_begin(full + 8 * i, 1);
      barrier_begin(empty + 8 * i, 2);
    }
    barrier_begin(b_there, 1);
    barriers_begun();
  }
  if (item < MEMBER_MAPS) map_written(maps + item * MAP_BYTES);
  barrier(CLK_LOCAL_MEM_FENCE);  // all see the barriers
  uint stage = 0, phase = 0;
  const uint ring_at = shared_address(ring);
  if (item < 128) {
    FEWER_REGISTERS;
    if (item != 0) return;
    if (B_BYTES > 0) {
      barrier_expect(b_there, STRIP_BOXES * B_BYTES);
      for (uint i = 0; i < STRIP_BOXES; ++i) {
        copy_box(ring_at + RING_BYTES + i * B_BYTES, maps + 2 * MAP_BYTES, strip_k + 64 * i, r0,
                 b_there);
      }
    }
    for (uint box = first; box < end; ++box) {
      const uint to = ring_at + stage * STAGE_BYTES, ready = full + 8 * stage;
      barrier_wait(empty + 8 * stage, phase ^ 1);
      barrier_expect(ready, STAGE_BYTES);
      for (uint i = 0; i < STRIP_BOXES; ++i) {
        copy_box(to + i * BOX_BYTES, maps, strip_k + 64 * i, box * 64, ready);
      }
      copy_box(to + STRIP_BOXES * BOX_BYTES, maps + MAP_BYTES, r0, box * 64, ready);
      if (++stage == STAGES) stage = 0, phase ^= 1;
    }
    return;
  }
  MORE_REGISTERS;
  const uint part = item / 128 - 1, lane = item % 32, row = item % 128 / 32 * 16 + lane / 4;
  float sums0[RANKS / 2], sums1[RANKS / 2], sums2[RANKS / 2], sums3[RANKS / 2];
#ifdef SHRINK
  float shrinks[RANKS / 2];
  const uint b_at = ring_at + RING_BYTES + part * GROUP_BOXES * B_BYTES;
  const uint columns = get_num_groups(2) * RANKS;
  __global float* shrunk_rows =
      shrunk + (size_t)(get_group_id(0) * 2 + part) * T * columns + get_group_id(2) * RANKS;
  barrier_wait(b_there, 0);
#endif
  for (uint box = first; box < end; ++box) {
    const uint at = ring_at + stage * STAGE_BYTES, s_at = at + STRIP_BOXES * BOX_BYTES;
    const uint x_at = at + part * GROUP_BOXES * BOX_BYTES;
    barrier_wait(full + 8 * stage, phase);
    PRODUCTS_FENCE;
    GRADIENT(0)
    GRADIENT(1) GRADIENT(2) GRADIENT(3)
#ifdef SHRINK
        SHRINKS(0) SHRINKS(1) SHRINKS(2) SHRINKS(3)
#endif
            PRODUCTS_COMMIT;
#ifdef SHRINK
    PRODUCTS_ENDED(RANKS)(shrinks);
#endif
    PRODUCTS_ENDED(RANKS)(sums0);
    if (item % 128 == 0) barrier_arrive(empty + 8 * stage);
    if (++stage == STAGES) stage = 0, phase ^= 1;
#ifdef SHRINK
#pragma unroll
    for (uint i = 0; i < RANKS / 4; ++i) {
      const uint t = box * 64 + row + i % 2 * 8, r = i / 2 * 8 + 2 * (lane % 4);
      if (t < T) {
        *(__global float2*)(shrunk_rows + (size_t)t * columns + r) =
            (float2)(shrinks[2 * i], shrinks[2 * i + 1]);
      }
    }
#endif
  }
  PRODUCTS_ENDED(RANKS)(sums1);
  PRODUCTS_ENDED(RANKS)(sums2);
  PRODUCTS_ENDED(RANKS)(sums3);
  __global float* chunk = parts + ((size_t)get_group_id(1) * R + r0) * columns_of_x;
  const uint k0 = strip_k + part * GROUP_BOXES * 64 + row;
  store_gradient(chunk, sums0, k0, columns_of_x, R - r0, lane);
  store_gradient(chunk, sums1, k0 + 64, columns_of_x, R - r0, lane);
  store_gradient(chunk, sums2, k0 + 128, columns_of_x, R - r0, lane);
  store_gradient(chunk, sums3, k0 + 192, columns_of_x, R - r0, lane);
}

// The sum of `count` floats, `apart` from one another; neighbouring items have neighbouring ones.
float sum_of(__global const float* from, uint count, size_t apart) {
  float sum = 0.0f;
#pragma unroll 8
  for (uint i = 0; i < count; ++i) sum += from[i * apart];
  return sum;
}

// A work-group owns SUM_ITEMS / SLICES elements: of out [R, K], of all members, then of shrunk_out
// [T, R] where it shrinks, from matrices of `columns` columns. An item adds up a slice of an
// element's parts.
__attribute__((reqd_work_group_size(SUM_ITEMS, 1, 1))) __kernel void lora_sums(
    __global float* out, OTHERS(__global float*, out) __global const float* parts,
    __global ushort* shrunk_out, OTHERS(__global ushort*, shrunk_out) __global const float* shrunk,
    uint T, uint R, uint K, OTHERS(uint, K) uint chunks, uint columns, uint shrinks, float scale,
    float shrink_scale) {
  __local float slices[SUM_ITEMS];
  const uint item = get_local_id(0), element = item % SUM_ELEMENTS, slice = item / SUM_ELEMENTS;
  uint i = get_group_id(0) * SUM_ELEMENTS + element, member = 0;
#if MEMBERS > 1
  const uint all = R * (K + K_1 + K_2);
#else
  const uint all = R * K;
#endif
  const int is_gradient = i < all;
  __global const float* from = parts;
  uint count = chunks;
  size_t apart;
  if (is_gradient) {
#if MEMBERS > 1
    member = i < R * K ? 0 : i < R * (K + K_1) ? 1 : 2;
    const uint before = member == 0 ? 0 : member == 1 ? R * K : R * (K + K_1);
    from += (size_t)chunks * before;
    i -= before;
#endif
    from += i;
    apart = (size_t)R * OF_MEMBER(K);
  } else {
    i -= all;
    from = shrunk;
#if MEMBERS > 1
    member = i / (T * R);
    i -= member * T * R;
    from += (size_t)(member == 0   ? 0
                     : member == 1 ? STRIPS(K)
                                   : STRIPS(K) + STRIPS(K_1)) *
            2 * T * columns;
#endif
    const uint t = i / R, r = i - t * R;
    from += (size_t)t * columns + r / 64 * RANKS + r % 64;
    apart = (size_t)T * columns;
    count = shrinks && member < MEMBERS && t < T ? 2 * STRIPS(OF_MEMBER(K)) : 0;
  }
  const uint in_slice = (count + SLICES - 1) / SLICES, begin = min(slice * in_slice, count);
  slices[item] = sum_of(from + begin * apart, min(in_slice, count - begin), apart);
  barrier(CLK_LOCAL_MEM_FENCE);  // all slices are there
  if (slice > 0 || count == 0) return;
  float sum = slices[element];
  for (uint k = 1; k < SLICES; ++k) sum += slices[k * SUM_ELEMENTS + element];
  if (is_gradient) {
    OF_MEMBER(out)[i] += scale * sum;
  } else {
    OF_MEMBER(shrunk_out)[i] = bf16_of(shrink_scale * sum);
  }
}
