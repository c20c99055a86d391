// The tiling of products by cl/gemm/gemm_matrix.cl, and its choice.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace clora {

// A work-group's tile of y, and a sub-group's part of it; K steps are copied ahead in a ring of
// `stages` stages.
struct GemmMatrixTile {
  std::uint32_t rows = 0;
  std::uint32_t columns = 0;
  std::uint32_t sub_rows = 0;
  std::uint32_t sub_columns = 0;
  std::uint32_t steps = 0;
  std::uint32_t stages = 0;
  std::uint32_t most_resident = 1;  // work-groups whose registers a compute unit has

  std::uint32_t sub_groups() const { return rows / sub_rows * (columns / sub_columns); }
  std::string name() const;  // "256x128x64": rows, columns, steps
  // Local memory, with `shrink` columns of a.
  std::uint32_t local_bytes(std::uint32_t shrink) const;
};
inline constexpr std::size_t kGemmMatrixTiles = 9;
std::span<const GemmMatrixTile, kGemmMatrixTiles> gemm_matrix_tiles();

// The costs by which a tile is chosen (ops/tuned/costs.hpp), in microseconds.
struct GemmMatrixCosts {
  static constexpr std::string_view kModel = "gemm_matrix";
  // 1000 K steps of each of the tiles, if several share a compute unit, and of one that is alone.
  std::array<double, kGemmMatrixTiles> shared{};
  std::array<double, kGemmMatrixTiles> alone{};
  double tile_steps = 0;     // of a tile next to its own: filling the ring and storing, in K steps
  double shrink_column = 0;  // columns of w that take as long as a column of a: its operands are
                             // used once, and take registers
  double shrink_launch = 0;  // a separate launch for the shrink, next to its own time
  double sum_launch = 0;     // a second launch, which adds slices up,
  double sum_bytes = 0;      // and the bytes that it reads or writes in a microsecond
  double max_slices = 0;
  double min_slice_steps = 0;

  static void each(auto& costs, auto f) {
    for (std::size_t i = 0; i < kGemmMatrixTiles; ++i) {
      const GemmMatrixTile& tile = gemm_matrix_tiles()[i];
      f(tile.name() + "_shared", costs.shared[i]);
      f(tile.name() + "_alone", costs.alone[i]);
    }
    f("tile_steps", costs.tile_steps);
    f("shrink_column", costs.shrink_column);
    f("shrink_launch", costs.shrink_launch);
    f("sum_launch", costs.sum_launch);
    f("sum_bytes", costs.sum_bytes);
    f("max_slices", costs.max_slices);
    f("min_slice_steps", costs.min_slice_steps);
  }
};

// The GPU's part in the choice, next to its costs.
struct GemmMatrixUnits {
  std::uint32_t count = 1;
  std::uint32_t local_bytes = 0;   // of one, for all of its work-groups
  std::uint32_t most_sums = 4096;  // elements of y that a sub-group has registers for
};

// The sizes that decide the tiling of a product.
struct GemmMatrixSize {
  std::uint32_t rows = 0;
  std::array<std::uint32_t, 3> columns{};  // of each output
  std::uint32_t k = 0;                     // of all problems that are summed, with their ranks
  std::uint32_t shrink = 0;                // columns of a in a tile: 0, or a multiple of 16
  bool may_split = false;                  // K
};

struct GemmMatrixTiles {
  GemmMatrixTile tile;
  std::uint32_t shrink = 0;
  std::uint32_t count = 0;   // of all outputs
  std::uint32_t slices = 1;  // of a tile's K extent
  double time = 0;           // estimated microseconds, memory aside
};
// The tile and the number of slices with the least time; without rows, and with the largest time,
// if no tile fits the local memory, which can happen only with a shrink.
GemmMatrixTiles choose_gemm_matrix_tiles(const GemmMatrixUnits& units, const GemmMatrixCosts& costs,
                                         const GemmMatrixSize& size);

// Tiles of `tile` that cover all outputs.
std::uint32_t gemm_matrix_tile_count(const GemmMatrixTile& tile, const GemmMatrixSize& size);

}  // namespace clora
