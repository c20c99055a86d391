// gemm: products with a frozen weight, portable.
//
//   forward               y [M, N] = alpha x [M, K] w [N, K]^T + scale s [M, R] u [R, N] + addend
//                                    + bias
//   with -D BACKWARD      y [M, N] = alpha x [M, K] w [K, N] + the same
//   with -D COLUMN_SCALE  the products are multiplied with column_scale [N] first
//   with -D ROW_GROUPS    each row has its own u, or none (gemm_epilogue.clh)
//   with -D PROBLEMS=2 or 3  grouped problems: y_i [M, N_i] = alpha x_i w_i^T + scale s_i u_i
//                         + bias_i; BACKWARD, their sum: y [M, N] = x w + scale s u + x_1 w_1
//                         + scale s_1 u_1 + ... + addend
//
// Shapes  x [M, K], y and addend [M, N], s [M, R], u [R, N], bias [N]; w [N, K] or [K, N] by rows;
//         parts [slices, sliced tiles, TILE_ROWS x TILE_COLUMNS], in the order of the items. Grouped
//         problems have the same M and R; of a sum, K of all but the last is a multiple of STEPS.
// Types   w in any storage type (quant.clh); x of -D X_TYPE=f32, bf16 or f16; y and addend of
//         -D Y_TYPE, one of these; all else f32
// Work    gemm: a work-group owns a tile of TILE_ROWS x TILE_COLUMNS elements of y, which its items
//         hold in registers (register_tile.clh), or a slice of K for such a tile. The first
//         whole_tiles groups own whole tiles, in rasterisation groups (raster_groups.clh). The
//         others own slices of the remaining tiles: too few to occupy the device when whole.
//         gemm_add_slices: an item owns four elements of a sliced tile
// Local   gemm: two stages of both operands. While one is multiplied, the next is fetched into
//         registers and then staged in the other: one barrier per stage. The last steps of K, fewer
//         than STEPS, and those of R are staged without this overlap.
// Tiles               TILE_COLUMNS: w, then scale u
//                STEPS |############|
//      TILE_ROWS: x, s |#| =  tile of y; steps run over K and then R
//         Tiles of grouped problems are in one raster. The steps of a sum run over K of all
//         problems and then over R of all.
//         Rows past M and columns past N are copies of the last ones; they are not stored. With
//         row groups, the steps of R are repeated for each group that a tile has rows of, with
//         zeros in place of the other rows of s.
// Cost    2 M N (K + R) flops; x is read N / TILE_COLUMNS times, w M / TILE_ROWS times, and
//         dequantised as it is staged
// Numerics  f32 fma, steps in order, the slices' sums after that; a bf16 y is rounded at the end
// -D K_OF_FOURS, N_OF_FOURS: rows of K or N elements are aligned to four elements.
//! clc: build TILE_ROWS=128 TILE_COLUMNS=128 STEPS=8 ITEM_ROWS=8 ITEM_COLUMNS=8 X_TYPE=f32
//!     Y_TYPE=f32
//!     WEIGHT_TYPE={WEIGHT_F32,WEIGHT_F16,WEIGHT_BF16,WEIGHT_Q4_1,WEIGHT_Q6_K,WEIGHT_Q8_0}
//! clc: build TILE_ROWS=128 TILE_COLUMNS=128 STEPS=8 ITEM_ROWS=8 ITEM_COLUMNS=8 X_TYPE=f32
//!     Y_TYPE=f32 K_OF_FOURS N_OF_FOURS BACKWARD={0,1}
//!     WEIGHT_TYPE={WEIGHT_F32,WEIGHT_BF16,WEIGHT_Q4_0,WEIGHT_Q4_1,WEIGHT_Q8_0} WEIGHT_PACKED
//! clc: build TILE_ROWS=128 TILE_COLUMNS=128 STEPS=8 ITEM_ROWS=8 ITEM_COLUMNS=8 X_TYPE=bf16
//!     Y_TYPE=bf16 K_OF_FOURS N_OF_FOURS WEIGHT_TYPE=WEIGHT_BF16
//! clc: build TILE_ROWS=64 TILE_COLUMNS=64 STEPS=8 ITEM_ROWS=8 ITEM_COLUMNS=8 X_TYPE=f32 Y_TYPE=f32
//!     K_OF_FOURS N_OF_FOURS WEIGHT_TYPE=WEIGHT_BF16 COLUMN_SCALE ROW_GROUPS
//! clc: build TILE_ROWS=128 TILE_COLUMNS=128 STEPS=8 ITEM_ROWS=8 ITEM_COLUMNS=8 X_TYPE=f32
//!     Y_TYPE=f32 K_OF_FOURS N_OF_FOURS WEIGHT_TYPE=WEIGHT_BF16 BACKWARD={0,1} PROBLEMS={2,3}
//! clc: build TILE_ROWS=32 TILE_COLUMNS=32 STEPS=8 ITEM_ROWS=4 ITEM_COLUMNS=4 X_TYPE=f32 Y_TYPE=f32
//!     WEIGHT_TYPE=WEIGHT_Q4_1 BACKWARD={0,1} PROBLEMS=2
//! clc: budget on gfx90a registers<=168 spills=0
//! clc: grid of gemm
//!     ceil(M/TILE_ROWS)*ceil(N/TILE_COLUMNS)*(TILE_ROWS/ITEM_ROWS)*(TILE_COLUMNS/ITEM_COLUMNS)
//!     by (TILE_ROWS/ITEM_ROWS)*(TILE_COLUMNS/ITEM_COLUMNS)
//! clc: tune TILE_ROWS={32,64,128} TILE_COLUMNS={32,64,128} STEPS={8,16} ITEM_ROWS={4,8}
//!     ITEM_COLUMNS={4,8,16} where TILE_ROWS * TILE_COLUMNS / (ITEM_ROWS * ITEM_COLUMNS) <= 256 &&
//!     STEPS * ITEM_ROWS * ITEM_COLUMNS % (4 * TILE_COLUMNS) == 0 &&
//!     STEPS * ITEM_ROWS * ITEM_COLUMNS % (4 * TILE_ROWS) == 0
#include "gemm/gemm_epilogue.clh"
#include "gemm/gemm_groups.clh"
#include "raster_groups.clh"
#define IS_SUM (PROBLEMS > 1 && BACKWARD)  // of the problems
#define RASTER_ROWS 8                      // tile rows of a rasterisation group
#include "gemm/gemm_stages.clh"

// What is added to the products; column_scale, only with COLUMN_SCALE, multiplies them first.
typedef struct {
  __global const STORED(Y_TYPE)* addend;
  __global const float* bias;
  __global const float* column_scale;
  uint has_addend, has_bias;
} Epilogue;
#ifdef COLUMN_SCALE
#define EPILOGUE(i) {addend, OF(i, bias), column_scale, has_addend, has_bias}
#else
#define EPILOGUE(i) {addend, OF(i, bias), 0, has_addend, has_bias}
#endif

// y at row m, columns n .. n + 3 of [M, N], where they exist, from the products' sums.
INLINE void store_vec4(__global STORED(Y_TYPE)* y, Epilogue e, uint M, uint N, uint m, uint n,
                       float4 four) {
  if (m >= M || n >= N) return;
  const size_t at = (size_t)m * N + n;
#ifdef N_OF_FOURS
#ifdef COLUMN_SCALE
  four *= *(__global const float4*)(e.column_scale + n);
#endif
  if (e.has_addend) four += LOAD_VEC(Y_TYPE, e.addend, at / 4);
  if (e.has_bias) four += *(__global const float4*)(e.bias + n);
  STORE_VEC(Y_TYPE, y, (long)(at / 4), four);
#else
  const float values[4] = {four.x, four.y, four.z, four.w};
  for (uint i = 0; i < 4 && n + i < N; ++i) {
    float value = values[i];
#ifdef COLUMN_SCALE
    value *= e.column_scale[n + i];
#endif
    if (e.has_addend) value += LOAD_ONE(Y_TYPE, e.addend, at + i);
    if (e.has_bias) value += e.bias[n + i];
    STORE_ONE(Y_TYPE, y, at + i, value);
  }
#endif
}

// A tile of y: its problem, and its first row and column.
typedef struct {
  uint problem, m0, n0;
} Tile;

uint column_tiles_of(uint N) { return (N + TILE_COLUMNS - 1) / TILE_COLUMNS; }

Tile tile_of(uint number, uint M, EACH(uint, N)) {
  const uint group_m = RASTER_ROWS;
  const uint row_tiles = (M + TILE_ROWS - 1) / TILE_ROWS;
#if PROBLEMS > 1 && !IS_SUM
  const uint second = column_tiles_of(N), third = second + column_tiles_of(N_1);
  const uint column_tiles = third + (PROBLEMS > 2 ? column_tiles_of(N_2) : 0);
  RASTER_TILE(number)
  const uint problem = COLUMN_TILE < second ? 0 : COLUMN_TILE < third ? 1 : 2;
  const uint first_column = problem == 0 ? 0 : problem == 1 ? second : third;
#else
  const uint column_tiles = column_tiles_of(N), problem = 0, first_column = 0;
  RASTER_TILE(number)
#endif
  const Tile tile = {problem, ROW_TILE * TILE_ROWS, (COLUMN_TILE - first_column) * TILE_COLUMNS};
  return tile;
}

// The slice that a group multiplies. A signed quotient: see raster_tile() of raster_groups.clh.
uint slice_of(uint group, uint sliced_tiles) { return (uint)((int)group / (int)sliced_tiles); }

// A part of sums: four `four` of an item, of slice `slice` of a tile.
size_t part_index(uint slice, uint sliced_tiles, uint tile, uint four, uint item) {
  return (((size_t)slice * sliced_tiles + tile) * TILE_FOURS + four) * ITEMS + item;
}

// The operands and the low-rank term of problem i; of a sum, for the columns of the first one.
#define OPERANDS(i) {OF(i, x), OF(i, w), M, OF(i, N), OF(i, K), tile.m0, tile.n0}
#define LOW_RANK(i) {OF(i, s), OF(i, u), R, R, scale}

// Makes p the problem of a sum that has this step; p is that of an earlier one. A selection for each
// stage from a step alone takes 30 registers more.
#if IS_SUM
#define SELECT_PROBLEM(step)           \
  while ((step) >= first_step + p.K) { \
    first_step += p.K;                 \
    ++problem;                         \
    p.x = OF(problem, x);              \
    p.w = OF(problem, w);              \
    p.K = OF(problem, K);              \
  }
#else
#define SELECT_PROBLEM(step)
#endif

__attribute__((reqd_work_group_size(ITEMS, 1, 1))) __kernel void gemm(
    EACH(__global STORED(Y_TYPE)*, y), EACH(__global const STORED(X_TYPE)*, x),
    EACH(__global const uchar*, w), __global const STORED(Y_TYPE)* addend,
    EACH(__global const float*, bias), EACH(__global const float*, s),
    EACH(__global const float*, u), COLUMN_SCALE_PARAMETER ROW_GROUPS_PARAMETER
    __global float4* parts, uint M, EACH(uint, N), EACH(uint, K), uint R, float alpha,
    float scale, uint has_addend, uint has_bias, uint whole_tiles, uint sliced_tiles,
    uint slice_steps) {
  __local float4 left_fours[2 * STEPS * LEFT_STRIDE / 4];
  __local float4 right_fours[2 * STEPS * RIGHT_STRIDE / 4];
  __local float* left = (__local float*)left_fours;
  __local float* right = (__local float*)right_fours;
  const uint item = get_local_id(0), group = get_group_id(0);
  uint number = group, begin = 0, end = UINT_MAX;
  if (group >= whole_tiles) {
    number = whole_tiles + (group - whole_tiles) % sliced_tiles;
    begin = slice_of(group - whole_tiles, sliced_tiles) * slice_steps;
    end = begin + slice_steps;
  }
  const Tile tile = tile_of(number, M, ALL(N));
  float4 sums[TILE_FOURS];
#pragma unroll
  for (uint i = 0; i < TILE_FOURS; ++i) sums[i] = (float4)(0.0f);
  Operands p = OPERANDS(tile.problem);
  uint problem = tile.problem, first_step = 0;
#if IS_SUM
  const uint K_end = K + K_1 + (PROBLEMS > 2 ? K_2 : 0);
#else
  const uint K_end = p.K;
#endif
  begin = min(begin, K_end);
  end = min(end, K_end);
  const bool is_last = begin < end && end == K_end;
  // A slice begins at a multiple of STEPS, so only the last one has a rest and the low-rank steps.
  const int whole = (end - begin) / STEPS;
  const int of_k = (end - begin + STEPS - 1) / STEPS;
  float4 x_fours[X_FETCHES], w_fours[W_FETCHES];
  if (whole > 0) {
    SELECT_PROBLEM(begin)
    fetch_stage(x_fours, w_fours, p, begin - first_step, item);
    store_stage(left, right, x_fours, w_fours, item);
  }
  barrier(CLK_LOCAL_MEM_FENCE);  // the first stage is complete
  for (int now = 0; now < whole; ++now) {
    const int next = now + 1, to = next % 2;
    if (next < whole) {
      SELECT_PROBLEM(begin + next * STEPS)
      fetch_stage(x_fours, w_fours, p, begin + next * STEPS - first_step, item);
    }
    multiply_tile(sums, left + now % 2 * STEPS * LEFT_STRIDE,
                  right + now % 2 * STEPS * RIGHT_STRIDE, RIGHT_STRIDE, item);
    if (next < whole) {
      store_stage(left + to * STEPS * LEFT_STRIDE, right + to * STEPS * RIGHT_STRIDE, x_fours,
                  w_fours, item);
    }
    barrier(CLK_LOCAL_MEM_FENCE);  // the next stage is complete, and all items have read this one
  }
  const int of_ranks = (R + STEPS - 1) / STEPS;  // of a problem
#ifdef ROW_GROUPS
  const int stages = of_k;  // those of R depend on the group
#else
  const int stages = is_last ? of_k + (IS_SUM ? PROBLEMS : 1) * of_ranks : of_k;
#endif
  scale_sums(sums, alpha);
  uint of = tile.problem, rank = 0;  // those of the next stage of ranks
  for (int now = whole; now < stages; ++now) {  // the rest of K, and R
    if (now < of_k) {
      stage_rest(left, right, p, alpha, begin + now * STEPS - first_step, item);
    } else {
      const LowRank term = LOW_RANK(of);
      stage_low_rank(left, right, p, term, rank, 0, M, item);
      rank += STEPS;
      if (IS_SUM && rank >= R) {
        rank = 0;
        ++of;
      }
    }
    barrier(CLK_LOCAL_MEM_FENCE);  // the steps are staged
    multiply_tile(sums, left, right, RIGHT_STRIDE, item);
    barrier(CLK_LOCAL_MEM_FENCE);  // all items have read them
  }
#ifdef ROW_GROUPS
  const uint row_end = is_last ? min(M, tile.m0 + TILE_ROWS) : tile.m0;
  for (uint m = tile.m0, next; m < row_end; m = next) {
    const uint adapter = row_adapter(row_groups, m);
    next = row_group_end(row_groups, m, row_end);
    if (adapter == NO_ADAPTER) continue;
    const uint ranks = row_ranks(row_groups, m, R);
    const LowRank of_group = {s, u + (size_t)adapter * R * N, R, ranks, scale};
    for (uint r = 0; r < ranks; r += STEPS) {
      stage_low_rank(left, right, p, of_group, r, m, next, item);
      barrier(CLK_LOCAL_MEM_FENCE);  // the steps are staged
      multiply_tile(sums, left, right, RIGHT_STRIDE, item);
      barrier(CLK_LOCAL_MEM_FENCE);  // all items have read them
    }
  }
#endif
  if (group >= whole_tiles) {
    const uint slice = slice_of(group - whole_tiles, sliced_tiles);
#pragma unroll
    for (uint i = 0; i < TILE_FOURS; ++i) {
      parts[part_index(slice, sliced_tiles, number - whole_tiles, i, item)] = sums[i];
    }
    return;
  }
  const Epilogue epilogue = EPILOGUE(tile.problem);
#pragma unroll
  for (uint i = 0; i < ITEM_ROWS; ++i) {
#pragma unroll
    for (uint j = 0; j < COLUMN_FOURS; ++j) {
      store_vec4(OF(tile.problem, y), epilogue, M, OF(tile.problem, N),
                 tile.m0 + tile_row(item, i), tile.n0 + tile_column(item, j),
                 sums[i * COLUMN_FOURS + j]);
    }
  }
}

// Group (i, t) adds the parts of four i of each item of sliced tile t.
__attribute__((reqd_work_group_size(ITEMS, 1, 1))) __kernel void gemm_add_slices(
    EACH(__global STORED(Y_TYPE)*, y), __global const float4* parts,
    __global const STORED(Y_TYPE)* addend, EACH(__global const float*, bias),
    COLUMN_SCALE_PARAMETER uint M, EACH(uint, N), uint has_addend, uint has_bias,
    uint whole_tiles, uint sliced_tiles, uint slices) {
  const uint item = get_local_id(0), four = get_group_id(0), number = get_group_id(1);
  float4 sum = parts[part_index(0, sliced_tiles, number, four, item)];
#pragma unroll 4
  for (uint slice = 1; slice < slices; ++slice) {
    sum += parts[part_index(slice, sliced_tiles, number, four, item)];
  }
  const Tile tile = tile_of(whole_tiles + number, M, ALL(N));
  const Epilogue epilogue = EPILOGUE(tile.problem);
  store_vec4(OF(tile.problem, y), epilogue, M, OF(tile.problem, N),
             tile.m0 + tile_row(item, four / COLUMN_FOURS),
             tile.n0 + tile_column(item, four % COLUMN_FOURS), sum);
}
