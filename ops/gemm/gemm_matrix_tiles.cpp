#include "ops/gemm/gemm_matrix_tiles.hpp"

#include <algorithm>
#include <limits>

#include "runtime/integer_sizes.hpp"

namespace clora {
namespace {

// Tiles fit the local memory of all GPUs with mma.sync: 99 KiB for a work-group, and for those of
// which two are resident, 99 KiB together. Speeds are those of large products on an H100.
constexpr GemmMatrixTile kTiles[] = {
    {.rows = 128, .columns = 256, .sub_rows = 64, .sub_columns = 64, .steps = 32, .stages = 3},
    {.rows = 128,
     .columns = 128,
     .sub_rows = 64,
     .sub_columns = 64,
     .steps = 32,
     .stages = 3,
     .resident = 2},
    {.rows = 64,
     .columns = 128,
     .sub_rows = 32,
     .sub_columns = 64,
     .steps = 32,
     .stages = 4,
     .resident = 2,
     .speed = 0.8},
    {.rows = 32,
     .columns = 128,
     .sub_rows = 32,
     .sub_columns = 32,
     .steps = 64,
     .stages = 4,
     .speed = 0.5},
    {.rows = 16,
     .columns = 128,
     .sub_rows = 16,
     .sub_columns = 32,
     .steps = 64,
     .stages = 4,
     .speed = 0.3},
};
// Costs in K steps of an element: filling the ring and storing a tile, per element of a tile; and
// adding slices up, which is a launch of its own, per element of y and slice.
constexpr double kTileSteps = 96;
constexpr double kSliceLaunch = 4e6;
constexpr double kSliceSteps = 24;
constexpr std::uint32_t kMaxSlices = 16;
constexpr std::uint32_t kMinSliceSteps = 256;

double cost_of(const GemmMatrixTile& tile, const GemmMatrixSize& size, std::uint32_t count,
               std::uint32_t slices) {
  const double waves = divide_up(count * slices, size.units * tile.resident);
  const double elements = double{tile.rows} * (tile.columns + size.shrink);
  const double k = divide_up(size.k, slices) + kTileSteps;
  double cost = waves * tile.resident * elements * k / tile.speed;
  if (slices > 1) {
    double across = 0;
    for (const std::uint32_t columns : size.columns) across += columns;
    cost += kSliceLaunch + kSliceSteps * across * size.rows * (slices + 1) / size.units;
  }
  return cost;
}

}  // namespace

std::uint32_t GemmMatrixTile::local_bytes(std::uint32_t shrink) const {
  return stages * steps * (rows + columns + shrink) * std::uint32_t{sizeof(std::uint16_t)};
}

std::span<const GemmMatrixTile> gemm_matrix_tiles() { return kTiles; }

std::uint32_t gemm_matrix_tile_count(const GemmMatrixTile& tile, std::uint32_t rows,
                                     std::span<const std::uint32_t> columns) {
  std::uint32_t across = 0;
  for (const std::uint32_t each : columns) across += divide_up(each, tile.columns);
  return across * divide_up(rows, tile.rows);
}

GemmMatrixTiles choose_gemm_matrix_tiles(const GemmMatrixSize& size) {
  GemmMatrixTiles best{.cost = std::numeric_limits<double>::max()};
  for (const GemmMatrixTile& tile : kTiles) {
    const std::uint32_t count = gemm_matrix_tile_count(tile, size.rows, size.columns);
    const std::uint32_t most =
        size.may_split ? std::clamp(size.k / kMinSliceSteps, 1U, kMaxSlices) : 1;
    for (std::uint32_t slices = 1; slices <= most; ++slices) {
      const double cost = cost_of(tile, size, count, slices);
      if (cost < best.cost) best = {tile, size.shrink, count, slices, cost};
    }
  }
  return best;
}

}  // namespace clora
