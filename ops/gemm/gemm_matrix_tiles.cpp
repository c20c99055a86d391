#include "ops/gemm/gemm_matrix_tiles.hpp"

#include <algorithm>
#include <limits>

#include "runtime/integer_sizes.hpp"

namespace clora {
namespace {

// Times by docs/decisions/products-on-matrix-units.md. Columns in the order of the struct's
// members.
constexpr GemmMatrixTile kTiles[] = {
    {256, 128, 64, 64, 64, 3, 1, 18.0, 18.0},  // 144 KiB
    {128, 128, 64, 64, 64, 3, 2, 9.5, 13.0},   // 96 KiB
    {128, 256, 64, 64, 32, 3, 1, 21.0, 21.0},  // 72 KiB
    {128, 128, 64, 64, 32, 3, 2, 11.0, 14.0},  // 48 KiB
    {64, 128, 32, 64, 64, 3, 3, 5.6, 8.0},     // 72 KiB
    {64, 64, 32, 32, 64, 4, 3, 3.6, 5.0},      // 64 KiB
    {32, 64, 16, 32, 64, 5, 3, 2.8, 3.5},      // 60 KiB
    {16, 64, 16, 16, 128, 4, 3, 2.4, 3.0},     // 80 KiB
    {32, 16, 16, 16, 128, 4, 4, 1.4, 3.5},     // 48 KiB, for adapters' shrinks
};
// A tile's filling of the ring and storing, in K steps.
constexpr double kTileSteps = 96;
// A second launch adds slices up, and reads and writes them at this speed.
constexpr double kSumLaunch = 4;
constexpr double kBytesPerMicrosecond = 2.5e6;
constexpr std::uint32_t kMaxSlices = 16;
constexpr std::uint32_t kMinSliceSteps = 256;
// Columns of a cost more than those of w: their operands are used once, and take registers.
constexpr double kShrinkColumn = 2;
constexpr std::uint32_t kReservedBytes = 1024;  // of local memory, by each work-group

std::uint32_t resident(const GemmMatrixTile& tile, const GemmMatrixUnits& units,
                       std::uint32_t shrink) {
  if (tile.sub_rows * tile.sub_columns > units.most_sums) return 0;
  const std::uint32_t by_memory = units.local_bytes / (tile.local_bytes(shrink) + kReservedBytes);
  return std::min(tile.most_resident, by_memory);
}

double time_of_sum(const GemmMatrixSize& size, std::uint32_t slices) {
  double columns = 0;
  for (const std::uint32_t each : size.columns) columns += each;
  return kSumLaunch + sizeof(float) * columns * size.rows * (slices + 1) / kBytesPerMicrosecond;
}

double time_of(const GemmMatrixTile& tile, const GemmMatrixUnits& units, const GemmMatrixSize& size,
               std::uint32_t groups, std::uint32_t slices) {
  const std::uint32_t at_once = units.count * resident(tile, units, size.shrink);
  const double shared = divide_up(groups, units.count) * tile.shared_time;
  const double alone = divide_up(groups, at_once) * tile.alone_time;
  const double widened = 1 + kShrinkColumn * size.shrink / tile.columns;
  const double steps = divide_up(size.k, slices) + kTileSteps;
  return std::max(shared, alone) * widened * steps / 1000;
}

}  // namespace

std::uint32_t GemmMatrixTile::local_bytes(std::uint32_t shrink) const {
  return stages * steps * (rows + columns + shrink) * std::uint32_t{sizeof(std::uint16_t)};
}

std::span<const GemmMatrixTile> gemm_matrix_tiles() { return kTiles; }

std::uint32_t gemm_matrix_tile_count(const GemmMatrixTile& tile, const GemmMatrixSize& size) {
  std::uint32_t across = 0;
  for (const std::uint32_t each : size.columns) across += divide_up(each, tile.columns);
  return across * divide_up(size.rows, tile.rows);
}

GemmMatrixTiles choose_gemm_matrix_tiles(const GemmMatrixUnits& units, const GemmMatrixSize& size) {
  GemmMatrixTiles best;
  best.time = std::numeric_limits<double>::max();
  for (const GemmMatrixTile& tile : kTiles) {
    if (resident(tile, units, size.shrink) == 0) continue;
    const std::uint32_t count = gemm_matrix_tile_count(tile, size);
    const std::uint32_t most =
        size.may_split ? std::clamp(size.k / kMinSliceSteps, 1U, kMaxSlices) : 1;
    for (std::uint32_t slices = 1; slices <= most; ++slices) {
      double time = time_of(tile, units, size, count * slices, slices);
      if (slices > 1) time += time_of_sum(size, slices);
      if (time < best.time) best = {tile, size.shrink, count, slices, time};
    }
  }
  return best;
}

}  // namespace clora
