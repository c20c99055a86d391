#include "ops/gemm/gemm_matrix_tiles.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "runtime/integer_sizes.hpp"

namespace clora {
namespace {

// Columns in the order of the struct's members.
constexpr std::array<GemmMatrixTile, kGemmMatrixTiles> kTiles{{
    {256, 128, 64, 64, 64, 3, 1},  // 144 KiB
    {128, 128, 64, 64, 64, 3, 2},  // 96 KiB
    {128, 256, 64, 64, 32, 3, 1},  // 72 KiB
    {128, 128, 64, 64, 32, 3, 2},  // 48 KiB
    {64, 128, 32, 64, 64, 3, 3},   // 72 KiB
    {64, 64, 32, 32, 64, 4, 3},    // 64 KiB
    {32, 64, 16, 32, 64, 5, 3},    // 60 KiB
    {16, 64, 16, 16, 128, 4, 3},   // 80 KiB
    {32, 16, 16, 16, 128, 4, 4},   // 48 KiB, for adapters' shrinks
}};
// Costs cannot ask for more; the kernels were measured up to here.
constexpr std::uint32_t kMaxSlices = 16;
constexpr std::uint32_t kReservedBytes = 1024;  // of local memory, by each work-group

std::uint32_t resident(const GemmMatrixTile& tile, const GemmMatrixUnits& units,
                       std::uint32_t shrink) {
  if (tile.sub_rows * tile.sub_columns > units.most_sums) return 0;
  const std::uint32_t by_memory = units.local_bytes / (tile.local_bytes(shrink) + kReservedBytes);
  return std::min(tile.most_resident, by_memory);
}

double time_of_sum(const GemmMatrixCosts& costs, const GemmMatrixSize& size, std::uint32_t slices) {
  double columns = 0;
  for (const std::uint32_t each : size.columns) columns += each;
  return costs.sum_launch + sizeof(float) * columns * size.rows * (slices + 1) / costs.sum_bytes;
}

// The time of `count` tiles, the i-th of the list, without the sum of their slices.
double time_of(std::size_t i, const GemmMatrixUnits& units, const GemmMatrixCosts& costs,
               const GemmMatrixSize& size, std::uint32_t count, std::uint32_t slices) {
  const GemmMatrixTile& tile = kTiles.at(i);
  const std::uint32_t groups = count * slices;
  const std::uint32_t at_once = units.count * resident(tile, units, size.shrink);
  const double shared = divide_up(groups, units.count) * costs.shared.at(i);
  const double alone = divide_up(groups, at_once) * costs.alone.at(i);
  const double widened = 1 + costs.shrink_column * size.shrink / tile.columns;
  const double steps = divide_up(size.k, slices) + costs.tile_steps;
  return std::max(shared, alone) * widened * steps / 1000;
}

// K is split only into slices that are long enough.
std::uint32_t max_slices(const GemmMatrixCosts& costs, const GemmMatrixSize& size) {
  if (!size.may_split) return 1;
  const double long_enough = size.k / std::max(1.0, costs.min_slice_steps);
  const double most = std::min<double>({long_enough, costs.max_slices, kMaxSlices});
  return std::max(1U, static_cast<std::uint32_t>(most));
}

}  // namespace

std::uint32_t GemmMatrixTile::local_bytes(std::uint32_t shrink) const {
  return stages * steps * (rows + columns + shrink) * std::uint32_t{sizeof(std::uint16_t)};
}

std::string GemmMatrixTile::name() const { return fmt::format("{}x{}x{}", rows, columns, steps); }

std::span<const GemmMatrixTile, kGemmMatrixTiles> gemm_matrix_tiles() { return kTiles; }

std::uint32_t gemm_matrix_tile_count(const GemmMatrixTile& tile, const GemmMatrixSize& size) {
  std::uint32_t across = 0;
  for (const std::uint32_t each : size.columns) across += divide_up(each, tile.columns);
  return across * divide_up(size.rows, tile.rows);
}

GemmMatrixTiles choose_gemm_matrix_tiles(const GemmMatrixUnits& units, const GemmMatrixCosts& costs,
                                         const GemmMatrixSize& size) {
  GemmMatrixTiles best;
  best.time = std::numeric_limits<double>::max();
  for (std::size_t i = 0; i < kTiles.size(); ++i) {
    const GemmMatrixTile& tile = kTiles.at(i);
    if (resident(tile, units, size.shrink) == 0) continue;
    const std::uint32_t count = gemm_matrix_tile_count(tile, size);
    for (std::uint32_t slices = 1; slices <= max_slices(costs, size); ++slices) {
      double time = time_of(i, units, costs, size, count, slices);
      if (slices > 1) time += time_of_sum(costs, size, slices);
      if (time < best.time) best = {tile, size.shrink, count, slices, time};
    }
  }
  return best;
}

}  // namespace clora
