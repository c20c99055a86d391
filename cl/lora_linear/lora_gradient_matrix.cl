// lora_gradient_matrix: gradients of adapters' matrices, and of what passes back through them, on a
// GPU's matrix unit (matrix_unit.clh), for several problems in one launch.
//
//   out [R, K] += scale * s [T, R]^T x [T, K]               of each problem
// and, of a problem that shrinks, from the same read of x:
//   shrunk [T, R] = shrink_scale * x [T, K] b [R, K]^T
//   out [R, K] += shared_scale * s^T x                      instead of scale
// lora_gradients_matrix computes the products: parts[c] [R, K] over chunk c of the rows, and
// shrunk_parts[p] [T, ranks] over strip p of the columns. lora_gradient_sums_matrix, a second
// launch, adds up the parts. No work-group waits for another.
// Shapes  table: for each problem the addresses of x, s, b, out, shrunk (0: it does not shrink),
//         parts and shrunk_parts; columns: K of each. Rows of x and b are K rounded up to a multiple
//         of 8 elements apart, those of s R rounded up likewise, with zeros past their columns. At
//         most MAX_PROBLEMS problems of equal T and R; parts [chunks][PART_FLOATS(R, K)]; a row of
//         shrunk_parts has RANKS floats for each block of ranks
// Types   x, s, b and shrunk bf16; all else f32
// Work    a work-group owns a strip of STRIP columns of a problem, a chunk of chunk_stages *
//         STAGE_ROWS rows, and RANKS ranks. It copies STAGE_ROWS rows of x and s at a time into a
//         ring of STAGES. A sub-group owns STRIP / SUBGROUPS columns of the gradient, and 16 rows,
//         16 ranks and every SPLITS-th step of columns of the shrink.
//         The sums: an item takes four elements of all results at a time, with a grid stride
// Options RANKS: a multiple of 16, STRIP a multiple of 64, STAGE_ROWS of 16
// Local   STAGES * STAGE_ROWS * (STRIP + RANKS) * 2 bytes, RANKS * STRIP * 2 bytes, and, if there are
//         several SPLITS, twice SPLITS * STAGE_ROWS * (RANKS + 4) * 4 bytes
// Tiles      a stage: s^T |#| x |########|   ->  parts [RANKS][STRIP], in registers
// Cost    2 T R K flops, twice that for a problem that shrinks; one read of x per RANKS ranks
// Numerics  products of bf16 are exact in f32; sums in the order of the matrix unit, parts added in
//         a fixed order: bitwise reproducible
//! clc: build on mma: MMA_SYNC RANKS={16,32,64}
//! clc: build on mfma: MFMA RANKS={16,32,64} STRIP=128
//! clc: build on wmma_gfx11: WMMA_GFX11 RANKS=16 STRIP=128
//! clc: build on wmma_gfx12: WMMA_GFX12 RANKS={16,32} STRIP=128
//! clc: build on xmx: XMX RANKS={16,32,64} STRIP=128 -cl-intel-256-GRF-per-thread
//! clc: budget of lora_gradients_matrix on gfx90a spills=0
//! clc: budget of lora_gradients_matrix on gfx942 spills=0
//! clc: budget of lora_gradients_matrix on gfx1100 spills=0
//! clc: budget of lora_gradients_matrix on gfx1201 spills=0
//! clc: budget of lora_gradients_matrix on pvc spills=0
//! clc: budget of lora_gradients_matrix on pvc spills=0
//! clc: build MMA_SYNC EMULATED RANKS={16,32} STRIP=64 SUBGROUPS=4
#include "bf16_values.clh"
#include "lora_linear/lora_gradient_sums.clh"
#include "matrix/matrix_unit.clh"
#ifndef RANKS
#error "RANKS is required"
#endif
#ifndef STRIP
#define STRIP 256
#endif
#ifndef SUBGROUPS
#define SUBGROUPS 8
#endif
#ifndef STAGE_ROWS
#define STAGE_ROWS 32
#endif
#ifndef STAGES
#ifdef HAS_ASYNC_COPIES
#define STAGES 3
#else
#define STAGES 2
#endif
#endif

#define MAX_PROBLEMS 16
#define ITEMS (SUBGROUPS * LANES)
// The tiles, in chunks of 16 bytes per row.
#define X_CHUNKS (STRIP / 8)
#define S_CHUNKS (RANKS / 8)
#define X_BYTES (STAGE_ROWS * STRIP * 2)
#define STAGE_BYTES ((X_BYTES + STAGE_ROWS * RANKS * 2 + 1023) / 1024 * 1024)
#define RING_BYTES (STAGES * STAGE_BYTES)
#define B_BYTES (RANKS * STRIP * 2)
// 16 x 16 products of a sub-group.
#define RANK_TILES (RANKS / 16)
#define COLUMN_TILES (STRIP / SUBGROUPS / 16)
#define ROW_TILES (STAGE_ROWS / 16)
// The shrink of a stage: its sub-groups share out the steps of columns in SPLITS.
#define SPLITS (SUBGROUPS / (ROW_TILES * RANK_TILES))
#define SPLIT_STEPS (STRIP / 16 / SPLITS)
#if COLUMN_TILES < 1 || SPLITS < 1 || SPLITS * ROW_TILES * RANK_TILES != SUBGROUPS
#error "SUBGROUPS: does not divide the products of a stage"
#endif
#define SHRINK_STRIDE (RANKS + 4)  // floats: rows begin in different banks
#define SHRINK_FLOATS (SPLITS > 1 ? SPLITS * STAGE_ROWS * SHRINK_STRIDE : 1)

typedef struct {
  ulong x, s, b;
  lora_addresses_t to;
} lora_problem_t;
typedef struct {
  uint of[MAX_PROBLEMS];
} lora_columns_t;

uint strips_of(uint K) { return (K + STRIP - 1) / STRIP; }
uint stride_of(uint columns) { return (columns + 7) / 8 * 8; }

// Copies `rows` rows of `chunks` chunks of a matrix, from row t0 and column k0 on, to a tile; zeros
// outside of the matrix.
INLINED void stage_tile(LocalAt tile, __global const ushort* m, uint t0, uint k0, uint T, uint K,
                        uint rows, uint chunks) {
  for (uint i = get_local_id(0); i < rows * chunks; i += ITEMS) {
    const uint row = i / chunks, chunk = i % chunks, t = t0 + row, k = k0 + chunk * 8;
    const bool is_read = t < T && k < K;
    stage_chunk(tile + tile_at(row, chunk, chunks),
                is_read ? m + (size_t)t * stride_of(K) + k : m, is_read);
  }
}

// sums += s^T x of a stage, for the columns of a sub-group from `column` on.
INLINED void add_gradients(MatrixUnit unit, Sums (*sums)[COLUMN_TILES], LocalAt x, LocalAt s,
                           uint column) {
  UNROLL
  for (uint step = 0; step < ROW_TILES; ++step) {
    Left left[RANK_TILES];
    UNROLL
    for (uint r = 0; r < RANK_TILES; ++r) {
      load_left_transposed(unit, &left[r], s, 16 * r, 16 * step, S_CHUNKS);
    }
    UNROLL
    for (uint c = 0; c < COLUMN_TILES; ++c) {
      Right right;
      load_right_transposed(unit, &right, x, 16 * step, column + 16 * c, X_CHUNKS);
      UNROLL
      for (uint r = 0; r < RANK_TILES; ++r) multiply(unit, &sums[r][c], &left[r], &right);
    }
  }
}

// The shrink of the rows from t0 on, which are in a stage: x b^T over the sub-group's steps of
// columns. Stores it, or keeps it in local memory if others have further steps.
INLINED void shrink_stage(MatrixUnit unit, __global float* parts, __local float* shrinks, LocalAt x,
                          LocalAt b, uint t0, uint T, uint stride) {
  const uint subgroup = get_local_id(0) / LANES;
  const uint row = subgroup % ROW_TILES * 16, rank = subgroup / ROW_TILES % RANK_TILES * 16;
  const uint split = subgroup / (ROW_TILES * RANK_TILES);
  Sums sums = {{{0}}};
  UNROLL
  for (uint step = 0; step < SPLIT_STEPS; ++step) {
    const uint k = (step * SPLITS + split) * 16;
    Left left;
    Right right;
    load_left(unit, &left, x, row, k, X_CHUNKS);
    load_right(unit, &right, b, k, rank, X_CHUNKS);
    multiply(unit, &sums, &left, &right);
  }
  UNROLL
  for (uint i = 0; i < SUM_ROWS; ++i) {
    const uint r = row + sum_row(unit, i);
    UNROLL
    for (uint j = 0; j < SUM_COLUMNS; ++j) {
      const uint c = rank + sum_column(unit, j);
      if (SPLITS > 1) {
        shrinks[(split * STAGE_ROWS + r) * SHRINK_STRIDE + c] = sums.v[i][j];
      } else if (t0 + r < T) {
        parts[(size_t)(t0 + r) * stride + c] = sums.v[i][j];
      }
    }
  }
}

// Stores the kept shrink of the rows from t0 on: the sums over the splits, in order.
INLINED void store_shrinks(__global float* parts, __local const float* shrinks, uint t0, uint T,
                           uint stride) {
  if (SPLITS == 1) return;
  for (uint i = get_local_id(0); i < STAGE_ROWS * RANKS; i += ITEMS) {
    const uint row = i / RANKS, rank = i % RANKS;
    if (t0 + row >= T) continue;
    float sum = 0;
    for (uint n = 0; n < SPLITS; ++n) {
      sum += shrinks[(n * STAGE_ROWS + row) * SHRINK_STRIDE + rank];
    }
    parts[(size_t)(t0 + row) * stride + rank] = sum;
  }
}

INLINED void store_gradients(MatrixUnit unit, __global float* parts, Sums (*sums)[COLUMN_TILES],
                             uint k0, uint K, uint ranks) {
  UNROLL
  for (uint r = 0; r < RANK_TILES; ++r) {
    UNROLL
    for (uint c = 0; c < COLUMN_TILES; ++c) {
      UNROLL
      for (uint i = 0; i < SUM_ROWS; ++i) {
        UNROLL
        for (uint j = 0; j < SUM_COLUMNS; ++j) {
          const uint rank = 16 * r + sum_row(unit, i), k = k0 + 16 * c + sum_column(unit, j);
          if (rank < ranks && k < K) parts[(size_t)rank * K + k] = sums[r][c].v[i][j];
        }
      }
    }
  }
}

SUBGROUP_OF_LANES __attribute__((reqd_work_group_size(ITEMS, 1, 1))) __kernel void
lora_gradients_matrix(__global const lora_problem_t* table, lora_columns_t columns, uint T, uint R,
                      uint strips, uint chunks, uint chunk_stages, uint rank_blocks) {
  __local uchar tiles[RING_BYTES + B_BYTES] __attribute__((aligned(1024)));
  __local float shrinks[2 * SHRINK_FLOATS];
  MATRIX_UNIT(unit, SUBGROUPS);
  uint strip = get_group_id(0) % strips, number = 0;
  while (strip >= strips_of(columns.of[number])) strip -= strips_of(columns.of[number++]);
  const uint K = columns.of[number], k0 = strip * STRIP;
  const uint chunk = get_group_id(0) / strips % chunks;
  const uint r0 = get_group_id(0) / strips / chunks * RANKS;
  const uint first = chunk * chunk_stages;
  const uint end = min(first + chunk_stages, (T + STAGE_ROWS - 1) / STAGE_ROWS);
  const lora_problem_t problem = table[number];
  __global const ushort* x = (__global const ushort*)problem.x;
  __global const ushort* s = (__global const ushort*)problem.s;
  const bool has_shrink = problem.to.shrunk != 0;
  const LocalAt ring = local_at(tiles), b = ring + RING_BYTES;
  const uint ranks = rank_blocks * RANKS;
  __global float* shrunk =
      (__global float*)problem.to.shrunk_parts + (size_t)strip * T * ranks + r0;
  const uint column = get_local_id(0) / LANES * (STRIP / SUBGROUPS);

  Sums sums[RANK_TILES][COLUMN_TILES];
  UNROLL
  for (uint i = 0; i < RANK_TILES * COLUMN_TILES * SUM_ROWS * SUM_COLUMNS; ++i) {
    sums[i / (COLUMN_TILES * SUM_ROWS * SUM_COLUMNS)]
        [i / (SUM_ROWS * SUM_COLUMNS) % COLUMN_TILES]
            .v[i / SUM_COLUMNS % SUM_ROWS][i % SUM_COLUMNS] = 0.0f;
  }
  // b arrives with the first stage.
  if (has_shrink) {
    stage_tile(b, (__global const ushort*)problem.b, r0, k0, R, K, RANKS, X_CHUNKS);
  }
  for (uint n = 0; n < STAGES - 1; ++n) {
    const LocalAt to = ring + n * STAGE_BYTES;
    if (first + n < end) {
      stage_tile(to, x, (first + n) * STAGE_ROWS, k0, T, K, STAGE_ROWS, X_CHUNKS);
      stage_tile(to + X_BYTES, s, (first + n) * STAGE_ROWS, r0, T, R, STAGE_ROWS, S_CHUNKS);
    }
    STAGE_COMMIT;
  }
  for (uint n = first; n < end; ++n) {
    STAGE_WAIT(STAGES - 2);
    barrier(CLK_LOCAL_MEM_FENCE);  // the stage is complete; all items have left the one before
    if (has_shrink && n > first) {
      store_shrinks(shrunk, shrinks + (n - 1) % 2 * SHRINK_FLOATS, (n - 1) * STAGE_ROWS, T, ranks);
    }
    const uint ahead = n + STAGES - 1;
    if (ahead < end) {
      const LocalAt to = ring + (ahead - first) % STAGES * STAGE_BYTES;
      stage_tile(to, x, ahead * STAGE_ROWS, k0, T, K, STAGE_ROWS, X_CHUNKS);
      stage_tile(to + X_BYTES, s, ahead * STAGE_ROWS, r0, T, R, STAGE_ROWS, S_CHUNKS);
    }
    STAGE_COMMIT;
    const LocalAt stage = ring + (n - first) % STAGES * STAGE_BYTES;
    add_gradients(unit, sums, stage, stage + X_BYTES, column);
    if (has_shrink) {
      shrink_stage(unit, shrunk, shrinks + n % 2 * SHRINK_FLOATS, stage, b, n * STAGE_ROWS, T,
                   ranks);
    }
  }
  if (has_shrink) {
    barrier(CLK_LOCAL_MEM_FENCE);  // the last stage's shrink is complete
    store_shrinks(shrunk, shrinks + (end - 1) % 2 * SHRINK_FLOATS, (end - 1) * STAGE_ROWS, T,
                  ranks);
  }
  __global float* parts = (__global float*)problem.to.parts +
                          (size_t)chunk * PART_FLOATS(R, K) + (size_t)r0 * K;
  store_gradients(unit, parts, sums, k0 + column, K, R - r0);
}

__attribute__((reqd_work_group_size(256, 1, 1))) __kernel void lora_gradient_sums_matrix(
    __global const lora_problem_t* table, lora_columns_t columns, uint problem_count, uint T,
    uint R, uint chunks, uint rank_blocks, float scale, float shared_scale, float shrink_scale) {
  // The quads of all results are numbered in sequence; this item takes them with a grid stride.
  const uint stride = get_global_size(0), ranks = rank_blocks * RANKS;
  uint quad = get_global_id(0);
  for (uint i = 0; i < problem_count; ++i) {
    const lora_addresses_t to = table[i].to;
    const uint K = columns.of[i], gradients = QUADS(R * K);
    const uint shrunk = to.shrunk ? T * ranks / 4 : 0;
    const float own_scale = to.shrunk ? shared_scale : scale;
    for (; quad < gradients; quad += stride) add_gradient(to, quad, R * K, chunks, own_scale);
    quad -= gradients;
    for (; quad < shrunk; quad += stride) {
      add_shrunk(to, quad, strips_of(K), T, R, ranks, shrink_scale);
    }
    quad -= shrunk;
  }
}
