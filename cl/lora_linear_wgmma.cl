// lora_linear_wgmma: gradients of adapters' matrices, and what passes back through them, on Hopper's
// matrix units: of several members in one launch.
//
//   out [R, K] += scale * s [T, R]^T x [T, K]               of each member; of those that shrink
//   shrunk [T, R] = shrink_scale * x [T, K] b [R, K]^T      of the same read of x, and there
//   out [R, K] += beside_scale * s^T x
// Products come first: parts[c] [R, K] over chunk c of the rows, and shrunk_parts[p] [T, R] over the
// strip p of columns, with RANKS=64 over half p of strips. Then all work-groups meet, and share the
// elements of all results, whose parts they add.
// Shapes  table: maps (cl/tensor_map.cl) of x, s and b, a member's together, in boxes of 64 rows,
//         64, and RANKS; then of each member the addresses of out, shrunk (0: it does not), parts
//         and shrunk_parts; then the counters of a meeting. Members of equal T and R; parts
//         [chunks][PART_FLOATS(R, K)], rows of shrunk_parts are RANKS for each 64 of R
// Types   x, s and b bf16, read through their maps alone; shrunk bf16; all else f32
// Work    a grid of at most as many work-groups of three warp groups as run side by side. A unit of
//         work is a strip of 512 columns of a member, a chunk of chunk_boxes times 64 rows and 64
//         ranks: one thread of the first warp group starts copies of 64 rows of x and s into a ring
//         of STAGES; the two others own 256 columns each. Groups take every so many-th unit.
// Options RANKS: 16, or 64 where R is more; STAGES
// Local   STAGES * 9 * 8 KB, 8 * RANKS * 128 bytes, 4 KB with 16 ranks, and barriers
// Tiles      64 rows: s^T |#| x |####|####|   ->  parts [RANKS][512], in registers
// Cost    2 T R K flops, twice that where it shrinks; one read of x for 64 ranks
// Numerics  products of bf16 are exact in f32; sums as the matrix unit makes them, parts added in a
//         fixed order: the same bits every run
#include "bf16_values.clh"
#include "hopper.clh"
#include "hopper_products.clh"
#if !defined(RANKS) || !defined(STAGES)
#error "RANKS and STAGES are required"
#endif

#define BOX_BYTES 8192  // 64 rows of 64 columns
#define GROUP_BOXES 4   // of a warp group
#define STRIP_BOXES (2 * GROUP_BOXES)
#define STAGE_BYTES ((STRIP_BOXES + 1) * BOX_BYTES)
#define RING_BYTES (STAGES * STAGE_BYTES)
#define B_BYTES (RANKS * 128)
#define MAP_BYTES 128
#define MEMBER_MAPS 3
#define STRIP_COLUMNS (STRIP_BOXES * 64)
#define MULTIPLIERS 256  // items
// Parts begin at multiples of 16 bytes.
#define QUADS(floats) (((floats) + 3) / 4)
#define PART_FLOATS(R, K) (4 * QUADS((R) * (K)))

// The multiplying warp groups meet those of other work-groups; the first has left.
#define GROUP_TOGETHER asm volatile("bar.sync 1, 256;" ::: "memory")
#define GROUP_LEADER (get_local_id(0) == 128)
#include "group_meeting.clh"

// A member's addresses in the table.
typedef struct {
  ulong out, shrunk, parts, shrunk_parts;
} lora_member_t;

uint strips_of(uint K) { return (K + STRIP_COLUMNS - 1) / STRIP_COLUMNS; }

// What the map of a member's x says of its columns.
uint columns_of(__global const uchar* table, uint member) {
  __global const uint* map = (__global const uint*)(table + member * MEMBER_MAPS * MAP_BYTES);
  return map[8] + 1;
}

#define INLINE __attribute__((always_inline))

// Box `i` of x: its columns are the product's rows, its rows the steps.
#define GRADIENT_STEP(i, step)                                                          \
  TURNED_PRODUCT(RANKS)                                                                 \
  (sums##i, transposed_operand_at(x_at + i * BOX_BYTES) + step * NEXT_TRANSPOSED_STEPS, \
   transposed_operand_at(s_at) + step * NEXT_TRANSPOSED_STEPS, box > first || step > 0);
#define GRADIENT(i) GRADIENT_STEP(i, 0) GRADIENT_STEP(i, 1) GRADIENT_STEP(i, 2) GRADIENT_STEP(i, 3)
#define GRADIENTS GRADIENT(0) GRADIENT(1) GRADIENT(2) GRADIENT(3)
// Its rows are the product's, its columns the steps.
#define SHRINK_STEP(i, step)                                      \
  PRODUCT(RANKS)                                                  \
  (shrinks, operand_at(x_at + i * BOX_BYTES) + step * NEXT_STEPS, \
   operand_at(b_at + i * B_BYTES) + step * NEXT_STEPS, i + step > 0, "0");
#define SHRINK(i) SHRINK_STEP(i, 0) SHRINK_STEP(i, 1) SHRINK_STEP(i, 2) SHRINK_STEP(i, 3)
#define SHRINKS SHRINK(0) SHRINK(1) SHRINK(2) SHRINK(3)

// The ring's stage holds `box`; afterwards it is free.
#define MULTIPLY_STAGE(products, ended)                            \
  const uint at = ring_at + stage * STAGE_BYTES;                   \
  const uint s_at = at + STRIP_BOXES * BOX_BYTES;                  \
  const uint x_at = at + part * GROUP_BOXES * BOX_BYTES;           \
  barrier_wait(full + 8 * stage, phase);                           \
  PRODUCTS_FENCE;                                                  \
  products PRODUCTS_COMMIT;                                        \
  ended;                                                           \
  PRODUCTS_ENDED(RANKS)(sums0);                                    \
  if (item % 128 == 0) barrier_arrive(empty + 8 * stage);          \
  if (++stage == STAGES) stage = 0, phase ^= 1;

// A lane's share of 64 columns k from k0 on, as rows of a product, and RANKS ranks.
INLINE void store_gradient(__global float* parts, const float* sums, uint k0, uint K, uint ranks,
                           uint lane) {
#pragma unroll
  for (uint i = 0; i < RANKS / 2; ++i) {
    const uint k = k0 + i / 2 % 2 * 8, r = i / 4 * 8 + 2 * (lane % 4) + i % 2;
    if (k < K && r < ranks) parts[(size_t)r * K + k] = sums[i];
  }
}

#if RANKS == 16
#define SHRUNK_PARTS 1  // of a strip
#else
#define SHRUNK_PARTS 2
#endif
// Of a warp group's sums, those that it stores itself.
#define KEPT_RANKS (RANKS * SHRUNK_PARTS / 2)

// A lane's share of rows t and t + 8 and KEPT_RANKS ranks; rows of `columns`.
INLINE void store_kept(__global float* shrunk, const float* sums, uint t0, uint T, uint columns,
                       uint lane) {
#pragma unroll
  for (uint i = 0; i < KEPT_RANKS / 4; ++i) {
    const uint t = t0 + i % 2 * 8, r = i / 2 * 8 + 2 * (lane % 4);
    if (t < T) {
      *(__global float2*)(shrunk + (size_t)t * columns + r) =
          (float2)(sums[2 * i], sums[2 * i + 1]);
    }
  }
}

// What the warp groups shrink of the same rows. Few ranks become one sum: each group keeps 8 of them,
// and gives the other one its sums of the others.
#if RANKS == 16
#define TRADED_FLOATS (RANKS / 2 * 128)
#define BOTH_TOGETHER asm volatile("bar.sync 3, 256;" ::: "memory")
INLINE void trade(float* sums, __local float* traded, uint kept) {
  const uint item = get_local_id(0) % 128, given = 4 - kept;
#pragma unroll
  for (uint i = 0; i < 4; ++i) traded[(given + i) * 128 + item] = sums[given + i];
  BOTH_TOGETHER;
#pragma unroll
  for (uint i = 0; i < 4; ++i) sums[kept + i] += traded[(kept + i) * 128 + item];
  BOTH_TOGETHER;  // before others are written over them
}
INLINE void store_shrunk(__global float* shrunk, float* sums, __local float* traded, uint part,
                         uint t0, uint T, uint columns, uint lane) {
  if (part == 0) {
    trade(sums, traded, 0);
    store_kept(shrunk, sums, t0, T, columns, lane);
  } else {
    trade(sums, traded, 4);
    store_kept(shrunk + 8, sums + 4, t0, T, columns, lane);
  }
}
#else
#define TRADED_FLOATS 1
INLINE void store_shrunk(__global float* shrunk, float* sums, __local float* traded, uint part,
                         uint t0, uint T, uint columns, uint lane) {
  store_kept(shrunk + (size_t)part * T * columns, sums, t0, T, columns, lane);
}
#endif

// A unit of work, by its number.
typedef struct {
  uint member, K, strip;  // strip: of the member's
  uint chunk, r0;
  uint first, end;  // boxes of rows
} unit_t;

unit_t unit_at(uint number, __global const uchar* table, uint strips, uint chunks, uint chunk_boxes,
               uint T) {
  unit_t unit;
  unit.strip = number % strips;
  unit.member = 0;
  unit.K = columns_of(table, 0);
  while (unit.strip >= strips_of(unit.K)) {
    unit.strip -= strips_of(unit.K);
    unit.K = columns_of(table, ++unit.member);
  }
  unit.chunk = number / strips % chunks;
  unit.r0 = number / strips / chunks * 64;
  unit.first = unit.chunk * chunk_boxes;
  unit.end = min(unit.first + chunk_boxes, (T + 63) / 64);
  return unit;
}

// The sum of `count` quads, `apart` from one another; AT_ONCE of them are on their way together.
#define AT_ONCE 12
float4 sum_of(__global const float4* from, uint count, size_t apart) {
  float4 sum = 0.0f;
  for (uint first = 0; first < count; first += AT_ONCE) {
    float4 quads[AT_ONCE];
#pragma unroll
    for (uint i = 0; i < AT_ONCE; ++i) {
      quads[i] = first + i < count ? from[(first + i) * apart] : (float4)(0.0f);
    }
#pragma unroll
    for (uint i = 0; i < AT_ONCE; ++i) sum += quads[i];
  }
  return sum;
}

void add_gradient(__global const lora_member_t* member, uint quad, uint count, uint chunks,
                  float scale) {
  __global float* out = (__global float*)member->out;
  const float4 sum = sum_of((__global const float4*)member->parts + quad, chunks, QUADS(count));
  const float of[4] = {sum.x, sum.y, sum.z, sum.w};
#pragma unroll
  for (uint i = 0; i < 4; ++i) {
    if (4 * quad + i < count) out[4 * quad + i] += scale * of[i];
  }
}

void add_shrunk(__global const lora_member_t* member, uint quad, uint count, uint T, uint R,
                uint columns, float scale) {
  const uint t = quad / (columns / 4), r = 4 * (quad % (columns / 4));
  __global ushort* shrunk = (__global ushort*)member->shrunk + (size_t)t * R;
  const float4 sum = sum_of((__global const float4*)member->shrunk_parts + quad, count,
                            (size_t)T * columns / 4);
  const float of[4] = {sum.x, sum.y, sum.z, sum.w};
#pragma unroll
  for (uint i = 0; i < 4; ++i) {
    if (r + i < R) shrunk[r + i] = bf16_of(scale * of[i]);
  }
}

__attribute__((reqd_work_group_size(384, 1, 1))) __kernel void lora_gradients_wgmma(
    __global const uchar* table, uint member_count, uint T, uint R, uint strips, uint chunks,
    uint chunk_boxes, uint rank_blocks, float scale, float beside_scale, float shrink_scale) {
  __local uchar ring[RING_BYTES + STRIP_BOXES * B_BYTES] __attribute__((aligned(1024)));
  __local float traded[TRADED_FLOATS];
  __local ulong barriers[2 * STAGES + 2];
  __global const lora_member_t* members =
      (__global const lora_member_t*)(table + member_count * MEMBER_MAPS * MAP_BYTES);
  __global volatile uint* meeting = (__global volatile uint*)(members + member_count);
  const uint full = shared_address(barriers), empty = full + 8 * STAGES;
  const uint b_full = empty + 8 * STAGES, b_empty = b_full + 8;
  const uint item = get_local_id(0), units = strips * chunks * rank_blocks;
  if (item == 0) {
    for (uint i = 0; i < STAGES; ++i) {
      barrier_begin(full + 8 * i, 1);
      barrier_begin(empty + 8 * i, 2);
    }
    barrier_begin(b_full, 1);
    barrier_begin(b_empty, 2);
    barriers_begun();
  }
  for (uint i = item; i < member_count * MEMBER_MAPS; i += 384) map_written(table + i * MAP_BYTES);
  barrier(CLK_LOCAL_MEM_FENCE);  // all see the barriers
  uint stage = 0, phase = 0, b_phase = 0;
  const uint ring_at = shared_address(ring), all_b_at = ring_at + RING_BYTES;
  if (item < 128) {
    FEWER_REGISTERS;
    if (item != 0) return;
    for (uint number = get_group_id(0); number < units; number += get_num_groups(0)) {
      const unit_t unit = unit_at(number, table, strips, chunks, chunk_boxes, T);
      __global const uchar* of_x = table + unit.member * MEMBER_MAPS * MAP_BYTES;
      __global const uchar *of_s = of_x + MAP_BYTES, *of_b = of_s + MAP_BYTES;
      const uint strip_k = unit.strip * STRIP_COLUMNS;
      if (members[unit.member].shrunk) {
        barrier_wait(b_empty, b_phase ^ 1);
        barrier_expect(b_full, STRIP_BOXES * B_BYTES);
        for (uint i = 0; i < STRIP_BOXES; ++i) {
          copy_box(all_b_at + i * B_BYTES, of_b, strip_k + 64 * i, unit.r0, b_full);
        }
        b_phase ^= 1;
      }
      for (uint box = unit.first; box < unit.end; ++box) {
        const uint to = ring_at + stage * STAGE_BYTES, ready = full + 8 * stage;
        barrier_wait(empty + 8 * stage, phase ^ 1);
        barrier_expect(ready, STAGE_BYTES);
        for (uint i = 0; i < STRIP_BOXES; ++i) {
          copy_box(to + i * BOX_BYTES, of_x, strip_k + 64 * i, box * 64, ready);
        }
        copy_box(to + STRIP_BOXES * BOX_BYTES, of_s, unit.r0, box * 64, ready);
        if (++stage == STAGES) stage = 0, phase ^= 1;
      }
    }
    return;
  }
  MORE_REGISTERS;
  const uint part = item / 128 - 1, lane = item % 32, row = item % 128 / 32 * 16 + lane / 4;
  const uint b_at = all_b_at + part * GROUP_BOXES * B_BYTES, columns = rank_blocks * RANKS;
  const uint arrivals = arrivals_before(meeting, get_num_groups(0));
  float sums0[RANKS / 2], sums1[RANKS / 2], sums2[RANKS / 2], sums3[RANKS / 2];
  for (uint number = get_group_id(0); number < units; number += get_num_groups(0)) {
    const unit_t unit = unit_at(number, table, strips, chunks, chunk_boxes, T);
    __global const lora_member_t* member = members + unit.member;
    const uint K = unit.K, first = unit.first;
    if (member->shrunk) {
      float shrinks[RANKS / 2];
      __global float* shrunk = (__global float*)member->shrunk_parts +
                               (size_t)(unit.strip * SHRUNK_PARTS) * T * columns +
                               unit.r0 / 64 * RANKS;
      barrier_wait(b_full, b_phase);
      b_phase ^= 1;
      for (uint box = first; box < unit.end; ++box) {
        MULTIPLY_STAGE(GRADIENTS SHRINKS, PRODUCTS_ENDED(RANKS)(shrinks))
        store_shrunk(shrunk, shrinks, traded, part, box * 64 + row, T, columns, lane);
      }
      if (item % 128 == 0) barrier_arrive(b_empty);
    } else {
      for (uint box = first; box < unit.end; ++box) {
        MULTIPLY_STAGE(GRADIENTS, )
      }
    }
    PRODUCTS_ENDED(RANKS)(sums1);
    PRODUCTS_ENDED(RANKS)(sums2);
    PRODUCTS_ENDED(RANKS)(sums3);
    __global float* chunk = (__global float*)member->parts +
                            (size_t)unit.chunk * PART_FLOATS(R, K) + (size_t)unit.r0 * K;
    const uint k0 = unit.strip * STRIP_COLUMNS + part * GROUP_BOXES * 64 + row;
    store_gradient(chunk, sums0, k0, K, R - unit.r0, lane);
    store_gradient(chunk, sums1, k0 + 64, K, R - unit.r0, lane);
    store_gradient(chunk, sums2, k0 + 128, K, R - unit.r0, lane);
    store_gradient(chunk, sums3, k0 + 192, K, R - unit.r0, lane);
  }
  arrive(meeting);
  wait_for(meeting, arrivals + get_num_groups(0));  // all parts are there
  if (get_group_id(0) == 0) end_launch(meeting);
  // Quads of all results stand in a row; this item takes every so many-th.
  const uint stride = get_num_groups(0) * MULTIPLIERS;
  uint quad = get_group_id(0) * MULTIPLIERS + item - 128;
  for (uint i = 0; i < member_count; ++i) {
    __global const lora_member_t* member = members + i;
    const uint K = columns_of(table, i), gradients = QUADS(R * K);
    const uint shrunk = member->shrunk ? T * columns / 4 : 0;
    const float own_scale = member->shrunk ? beside_scale : scale;
    for (; quad < gradients; quad += stride) {
      add_gradient(member, quad, R * K, chunks, own_scale);
    }
    quad -= gradients;
    for (; quad < shrunk; quad += stride) {
      add_shrunk(member, quad, SHRUNK_PARTS * strips_of(K), T, R, columns, shrink_scale);
    }
    quad -= shrunk;
  }
}
