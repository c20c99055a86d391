// The tiling of cl/gemm/gemm_wgmma.cl: the source of its -D options and its grid.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "ops/gemm/gemm_wgmma_row_shrink.hpp"

namespace clora {

// Rows of a tile, and of the boxes of an operand with K along its rows. Products of up to
// kWgmmaBoxRows rows have tiles of as many: one warp group multiplies.
inline constexpr std::uint32_t kWgmmaTileRows = 128, kWgmmaBoxRows = 64;
// Ranks of one K step of an MMA, and of four: a box.
inline constexpr std::uint32_t kWgmmaStepRanks = 16, kWgmmaBoxRanks = 64;

// The costs by which its tiles are chosen (ops/tuned/costs.hpp), in columns of a tile times boxes
// of 64 K steps, one after another: about 2.7 ns each on an H200.
struct GemmWgmmaCosts {
  static constexpr std::string_view kModel = "gemm_wgmma";
  double tile_columns = 0;   // of a tile next to its own: filling the ring and storing
  double min_columns = 0;    // narrower tiles take as long as this: they wait for x
  double shrink_row = 0;     // of a separate launch for the shrink: reading a row's box of x,
  double shrink_launch = 0;  // and everything else
  double slice = 0;          // filling one more ring and finding the last slice
  double slice_column = 0;   // storing or adding a slice, per column
  double max_slices = 0;     // with more, adding them up takes longer than they save
  // min_columns, tile_columns, slice and slice_column of a single row of tiles, whose groups wait
  // for memory.
  double few_rows_min_columns = 0, few_rows_tile_columns = 0, few_rows_slice = 0,
         few_rows_slice_column = 0;

  static void each(auto& costs, auto f) {
    f("tile_columns", costs.tile_columns);
    f("min_columns", costs.min_columns);
    f("shrink_row", costs.shrink_row);
    f("shrink_launch", costs.shrink_launch);
    f("slice", costs.slice);
    f("slice_column", costs.slice_column);
    f("max_slices", costs.max_slices);
    f("few_rows_min_columns", costs.few_rows_min_columns);
    f("few_rows_tile_columns", costs.few_rows_tile_columns);
    f("few_rows_slice", costs.few_rows_slice);
    f("few_rows_slice_column", costs.few_rows_slice_column);
  }
};

// What the plan of a product depends on next to it.
struct WgmmaDevice {
  std::uint32_t units = 1;  // compute units of the GPU
  GemmWgmmaCosts costs;
};
// The sizes that decide the tiling of a product.
struct WgmmaSize {
  std::uint32_t rows = 0;
  std::array<std::uint32_t, 3> columns{};  // of each problem
  std::uint32_t shrink = 0;                // columns of a in a tile's accumulator: 0, 16 or 64
  bool full_boxes = false;  // operands are loaded in boxes of 64 x 64: w transposed, or u
  bool stages_y = false;    // tiles of a bf16 y are stored through shared memory
  std::uint32_t boxes = 1;  // of 64 K steps, of all problems that are summed
  bool awaits_s = false;    // with a row shrink, which slices would end before
};

// Tiles of `rows` rows and `columns` columns; their K extent may be split into slices, one
// work-group each.
struct WgmmaTiles {
  std::uint32_t rows = kWgmmaTileRows;
  std::uint32_t columns = 256;
  std::uint32_t shrink = 0;
  std::uint32_t staged = 0;       // columns that are stored through shared memory
  std::uint32_t stages = 4;       // of the ring
  std::uint32_t count = 0;        // of all problems
  std::uint32_t slices = 1;       // of a tile's K extent
  double cost = 0;                // of the product, in columns times boxes of steps, sequentially
  RowShrinkPlan row_shrink = {};  // by groups that no tile needs

  std::uint32_t width() const { return columns + shrink; }
  std::uint32_t stage_bytes(bool full_boxes) const;
  std::uint32_t staged_bytes() const;
};
// The width whose last wave of work-groups leaves the least of the GPU idle, with as many ring
// stages as shared memory allows. If there are fewer tiles than half the compute units, K is split
// if that saves more than adding the slices costs.
WgmmaTiles wgmma_tiles(const WgmmaDevice& device, const WgmmaSize& size);

// Such tiles of all problems.
std::uint32_t wgmma_tile_count(const WgmmaTiles& tiles, std::uint32_t rows,
                               std::span<const std::uint32_t> columns);

// Units that no wave of the tiles needs.
std::uint32_t idle_units(const WgmmaTiles& tiles, std::uint32_t units);

}  // namespace clora
