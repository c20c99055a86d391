// lora_linear_wgmma: gradients of adapters' matrices, and of what passes back through them, on
// Hopper's matrix units, for several problems in one launch.
//
//   out [R, K] += scale * s [T, R]^T x [T, K]               of each problem
// and, of a problem that shrinks, from the same read of x:
//   shrunk [T, R] = shrink_scale * x [T, K] b [R, K]^T
//   out [R, K] += shared_scale * s^T x                      instead of scale
// lora_gradients_wgmma computes the products: parts[c] [R, K] over chunk c of the rows, and
// shrunk_parts[p] [T, R] over strip p of the columns. lora_gradient_sums_wgmma, a second launch,
// adds up the parts. A launch begins after the one before has ended, so no work-group waits for
// another and the work-groups need not be co-resident.
// Shapes  table: the maps (tensor_map.cl) of x, s and b, problem by problem, in boxes of 64, 64
//         and RANKS rows; then, for each problem, the addresses of out, shrunk (0: it does not
//         shrink), parts and shrunk_parts. At most MAX_PROBLEMS problems of equal T and R; parts
//         [chunks][PART_FLOATS(R, K)]; a row of shrunk_parts has RANKS floats for each 64 of R
// Types   x, s and b bf16, read only through their maps; shrunk bf16; all else f32
// Work    a persistent grid of work-groups of three warp groups. A unit of work is a strip of 256
//         columns of a problem, a chunk of chunk_boxes * 64 rows, and 64 ranks. One thread of the
//         first warp group issues copies of 64 rows of x and s into a ring of stages. The other two
//         take 64 rows in turn, and add their gradients at the end of the unit. Work-groups take
//         units with a grid stride. The sums: an item takes four elements of all results at a time,
//         with a grid stride.
// Options RANKS: 16, or 64 if R is larger
// Local   STAGES * 5 * 8 KB, RANKS * 1 KB, the problems' addresses, and mbarriers
// Tiles      64 rows: s^T |#| x |########|   ->  parts [RANKS][256], in registers
// Cost    2 T R K flops, twice that for a problem that shrinks; one read of x per 64 ranks
// Numerics  products of bf16 are exact in f32; sums in the order of the matrix unit, parts added in
//         a fixed order: bitwise reproducible
//! clc: build on wgmma: RANKS={16,64}
#include "bf16_values.clh"
#include "hopper/hopper.clh"
#include "hopper/hopper_pipeline.clh"
#include "hopper/hopper_products.clh"
#ifndef RANKS
#error "RANKS is required"
#endif

#define BOX_BYTES 8192  // 64 rows of 64 columns
#define STRIP_BOXES 4
#define STRIP_COLUMNS (STRIP_BOXES * 64)
#define STAGE_BYTES ((STRIP_BOXES + 1) * BOX_BYTES)
// Even: within a unit, the warp group that waits for a phase of a stage has waited for the one
// before it.
#define STAGES 4
#define RING_BYTES (STAGES * STAGE_BYTES)
#define B_BYTES (RANKS * 128)
#include "lora_linear/lora_gradient_sums.clh"
#include "lora_linear/lora_linear_wgmma_problems.clh"
#include "lora_linear/lora_linear_wgmma_epilogue.clh"

// Shared-memory addresses of a stage's boxes of x and s.
typedef struct {
  uint x, s;
} Boxes;
INLINED Boxes boxes_of(uint ring, Stage stage) {
  const uint x = ring + stage.index * STAGE_BYTES;
  const Boxes boxes = {x, x + STRIP_BOXES * BOX_BYTES};
  return boxes;
}

// sums[i] += x s of box i of x: its columns are the rows of the product, its rows the steps of K.
INLINED void multiply_gradients(float (*sums)[RANKS / 2], Boxes at) {
#pragma unroll
  for (uint i = 0; i < STRIP_BOXES; ++i) {
#pragma unroll
    for (uint step = 0; step < 4; ++step) {
      WGMMA_SS_MN(RANKS)
      (sums[i], transposed_operand_at(at.x + i * BOX_BYTES) + step * NEXT_TRANSPOSED_STEPS,
       transposed_operand_at(at.s) + step * NEXT_TRANSPOSED_STEPS, 1);
    }
  }
}
// shrinks = x b: the rows of a box of x are the rows of the product, its columns the steps of K.
INLINED void multiply_shrink(float* shrinks, Boxes at, uint b_at) {
#pragma unroll
  for (uint i = 0; i < STRIP_BOXES; ++i) {
#pragma unroll
    for (uint step = 0; step < 4; ++step) {
      WGMMA_SS(RANKS)
      (shrinks, operand_at(at.x + i * BOX_BYTES) + step * NEXT_STEPS,
       operand_at(b_at + i * B_BYTES) + step * NEXT_STEPS, i + step > 0, "0");
    }
  }
}

__attribute__((reqd_work_group_size(384, 1, 1))) __kernel void lora_gradients_wgmma(
    __global const uchar* table, uint problem_count, uint T, uint R, uint strips, uint chunks,
    uint chunk_boxes, uint rank_blocks) {
  HOPPER_KERNEL;
  __local uchar ring[RING_BYTES + STRIP_BOXES * B_BYTES] __attribute__((aligned(1024)));
  __local float traded[TRADED_FLOATS];
  __local lora_problem_t problems[MAX_PROBLEMS];
  __local ulong barriers[2 * STAGES + 2];
  const Ring stages = ring_at(shared_address(barriers), STAGES);
  const Ring b_ring = ring_at(shared_address(barriers) + RING_MBARRIER_BYTES(STAGES), 1);
  const uint item = get_local_id(0), units = strips * chunks * rank_blocks;
  for (uint i = item; i < problem_count * PROBLEM_MAPS; i += 384)
    tensormap_acquire(table + i * MAP_BYTES);
  if (item >= 128 && item - 128 < problem_count) {
    problems[item - 128] = problem_of(table, problem_count, item - 128);
  }
  if (item == 0) {
    ring_init(stages, STAGES, 1);
    ring_init(b_ring, 1, 2);
    fence_mbarrier_init();
  }
  barrier(CLK_LOCAL_MEM_FENCE);  // the mbarriers and the problems are visible to all
  const uint tiles_at = shared_address(ring), b_at = tiles_at + RING_BYTES;
  uint done = 0;  // the number of boxes before this unit
  Stage b_stage = {0, 0};
  if (item < 128) {
    SETMAXNREG_DEC(40);
    if (item != 0) return;
    for (uint number = get_group_id(0); number < units; number += get_num_groups(0)) {
      const unit_t unit = unit_at(number, problems, strips, chunks, chunk_boxes, T);
      __global const uchar* of_x = table + unit.problem * PROBLEM_MAPS * MAP_BYTES;
      __global const uchar *of_s = of_x + MAP_BYTES, *of_b = of_s + MAP_BYTES;
      const uint strip_k = unit.strip * STRIP_COLUMNS;
      if (problems[unit.problem].at.shrunk) {
        const uint ready = ring_acquire(b_ring, b_stage, STRIP_BOXES * B_BYTES);
        for (uint i = 0; i < STRIP_BOXES; ++i) {
          tma_load_2d(b_at + i * B_BYTES, of_b, strip_k + 64 * i, unit.r0, ready);
        }
        b_stage = next_stage(b_stage, 1);
      }
      for (uint box = unit.first; box < unit.end; ++box, ++done) {
        const Stage stage = stage_of(done, STAGES);
        const Boxes to = boxes_of(tiles_at, stage);
        const uint ready = ring_acquire(stages, stage, STAGE_BYTES);
        for (uint i = 0; i < STRIP_BOXES; ++i) {
          tma_load_2d(to.x + i * BOX_BYTES, of_x, strip_k + 64 * i, box * 64, ready);
        }
        tma_load_2d(to.s, of_s, unit.r0, box * 64, ready);
      }
    }
    return;
  }
  SETMAXNREG_INC(232);
  const uint part = item / 128 - 1, lane = item % 32, row = item % 128 / 32 * 16 + lane / 4;
  const bool elected = item % 128 == 0;
  const uint columns = rank_blocks * RANKS;
  for (uint number = get_group_id(0); number < units; number += get_num_groups(0)) {
    const unit_t unit = unit_at(number, problems, strips, chunks, chunk_boxes, T);
    const lora_problem_t problem = problems[unit.problem];
    float sums[STRIP_BOXES][RANKS / 2];
#pragma unroll
    for (uint i = 0; i < STRIP_BOXES * RANKS / 2; ++i) sums[i / (RANKS / 2)][i % (RANKS / 2)] = 0.0f;
    const uint before = done - unit.first;
    if (problem.at.shrunk) {
      float shrinks[RANKS / 2];
      __global float* shrunk = (__global float*)problem.at.shrunk_parts +
                               (size_t)unit.strip * T * columns + unit.r0 / 64 * RANKS;
      ring_await(b_ring, b_stage);
      b_stage = next_stage(b_stage, 1);
      for (uint box = unit.first + part; box < unit.end; box += 2) {
        const Stage stage = stage_of(before + box, STAGES);
        const Boxes at = boxes_of(tiles_at, stage);
        ring_await(stages, stage);
        WGMMA_FENCE;
        multiply_gradients(sums, at);
        multiply_shrink(shrinks, at, b_at);
        WGMMA_COMMIT;
        WGMMA_WAIT_0(RANKS)(shrinks);
        WGMMA_WAIT_0(RANKS)(sums[0]);
        if (elected) ring_release(stages, stage.index);
        store_shrunk(shrunk, shrinks, box * 64 + row, T, columns, lane);
      }
      if (elected) ring_release(b_ring, 0);
    } else {
      for (uint box = unit.first + part; box < unit.end; box += 2) {
        const Stage stage = stage_of(before + box, STAGES);
        ring_await(stages, stage);
        WGMMA_FENCE;
        multiply_gradients(sums, boxes_of(tiles_at, stage));
        WGMMA_COMMIT;
        WGMMA_WAIT_0(RANKS)(sums[0]);
        if (elected) ring_release(stages, stage.index);
      }
    }
    done += unit.end - unit.first;
    WGMMA_WAIT_0(RANKS)(sums[1]);
    WGMMA_WAIT_0(RANKS)(sums[2]);
    WGMMA_WAIT_0(RANKS)(sums[3]);
    __global float* chunk = (__global float*)problem.at.parts +
                            (size_t)unit.chunk * PART_FLOATS(R, problem.K) +
                            (size_t)unit.r0 * problem.K;
    const uint k0 = unit.strip * STRIP_COLUMNS + part * (STRIP_COLUMNS / 2) + row;
    float both[RANKS / 2];
    trade(both, sums[0], sums[2], traded, part);
    store_gradient(chunk, both, k0, problem.K, R - unit.r0, lane);
    trade(both, sums[1], sums[3], traded, part);
    store_gradient(chunk, both, k0 + 64, problem.K, R - unit.r0, lane);
  }
}

__attribute__((reqd_work_group_size(256, 1, 1))) __kernel void lora_gradient_sums_wgmma(
    __global const uchar* table, uint problem_count, uint T, uint R, uint chunks, uint rank_blocks,
    float scale, float shared_scale, float shrink_scale) {
  // The quads of all results are numbered in sequence; this item takes them with a grid stride.
  const uint stride = get_global_size(0), columns = rank_blocks * RANKS;
  uint quad = get_global_id(0);
  for (uint i = 0; i < problem_count; ++i) {
    const lora_problem_t problem = problem_of(table, problem_count, i);
    const uint gradients = QUADS(R * problem.K);
    const uint shrunk = problem.at.shrunk ? T * columns / 4 : 0;
    const float own_scale = problem.at.shrunk ? shared_scale : scale;
    for (; quad < gradients; quad += stride) {
      add_gradient(problem.at, quad, R * problem.K, chunks, own_scale);
    }
    quad -= gradients;
    for (; quad < shrunk; quad += stride) {
      add_shrunk(problem.at, quad, strips_of(problem.K), T, R, columns, shrink_scale);
    }
    quad -= shrunk;
  }
}
