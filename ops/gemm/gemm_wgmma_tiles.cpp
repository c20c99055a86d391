#include "ops/gemm/gemm_wgmma_tiles.hpp"

#include <algorithm>
#include <limits>

#include "runtime/integer_sizes.hpp"

namespace clora {
namespace {

constexpr std::uint32_t kRowBytes = 128;  // of a box
// Maximum columns of a wgmma accumulator.
constexpr std::uint32_t kMaxColumns = 256;
// Shared memory of a work-group: 227 KiB, less the barriers.
constexpr std::uint32_t kSharedBytes = 226 << 10U;
// One row of tiles reads w once, at the speed of memory if its waves are full: that takes more
// widths than many rows, which were measured without it.
constexpr std::uint32_t kWidthOfFewRows = 160;
// Costs cannot ask for more; the kernels were measured up to here.
constexpr std::uint32_t kMaxSlices = 16;

// The costs with those of a single row of tiles, if the product has no more.
GemmWgmmaCosts costs_of_rows(GemmWgmmaCosts costs, const WgmmaSize& size) {
  if (size.rows > kWgmmaTileRows) return costs;
  costs.min_columns = costs.few_rows_min_columns;
  if (size.awaits_s) return costs;
  costs.tile_columns = costs.few_rows_tile_columns;
  costs.slice = costs.few_rows_slice;
  costs.slice_column = costs.few_rows_slice_column;
  return costs;
}

// Tiles of this width with the fastest number of split-K slices that still run all at once.
WgmmaTiles split_k_tiles(const WgmmaDevice& device, const WgmmaSize& size, std::uint32_t width) {
  const GemmWgmmaCosts costs = costs_of_rows(device.costs, size);
  const bool is_half = size.rows <= kWgmmaBoxRows;
  WgmmaTiles best{
      .rows = is_half ? kWgmmaBoxRows : kWgmmaTileRows, .columns = width, .shrink = size.shrink};
  best.count = wgmma_tile_count(best, size.rows, size.columns);
  // Columns that are loaded with a box but not multiplied cost half as much.
  const auto held = static_cast<std::uint32_t>(round_up(width, kWgmmaBoxRows));
  const std::uint32_t idle = size.full_boxes ? (held - width) / 2 : 0;
  const double columns = std::max<double>(width, costs.min_columns);
  const double box = columns + idle + size.shrink + costs.tile_columns;
  best.cost = box * size.boxes * divide_up(best.count, device.units);
  const auto worthwhile =
      static_cast<std::uint32_t>(std::min<double>(kMaxSlices, costs.max_slices));
  const std::uint32_t most = std::min({worthwhile, size.boxes, device.units / best.count});
  for (std::uint32_t slices = 2; slices <= most; ++slices) {
    const double cost = box * divide_up(size.boxes, slices) + costs.slice +
                        costs.slice_column * best.width() * (slices + 1);
    if (cost < best.cost) {
      best.slices = slices;
      best.cost = cost;
    }
  }
  return best;
}

}  // namespace

std::uint32_t wgmma_tile_count(const WgmmaTiles& tiles, std::uint32_t rows,
                               std::span<const std::uint32_t> columns) {
  std::uint32_t across = 0;
  for (const std::uint32_t each : columns) across += divide_up(each, tiles.columns);
  return across * divide_up(rows, tiles.rows);
}

std::uint32_t idle_units(const WgmmaTiles& tiles, std::uint32_t units) {
  const std::uint32_t groups = tiles.count * tiles.slices;
  return units - divide_up(groups, divide_up(groups, units));
}

std::uint32_t WgmmaTiles::stage_bytes(bool full_boxes) const {
  const auto boxes = static_cast<std::uint32_t>(round_up(columns, kWgmmaBoxRows));
  return kRowBytes * (rows + (full_boxes ? std::max(boxes, width()) : width()));
}

std::uint32_t WgmmaTiles::staged_bytes() const {
  return rows * staged * std::uint32_t{sizeof(std::uint16_t)};
}

WgmmaTiles wgmma_tiles(const WgmmaDevice& device, const WgmmaSize& size) {
  WgmmaTiles best;
  best.cost = std::numeric_limits<double>::max();
  for (const std::uint32_t width : {64U, 128U, kWidthOfFewRows, 192U, 224U, 256U}) {
    if (width == kWidthOfFewRows && (size.rows > kWgmmaTileRows || size.shrink > 0)) continue;
    const bool fits = width + size.shrink <= kMaxColumns;
    if (!fits || (size.shrink > kWgmmaStepRanks && width % kWgmmaBoxRows != 0)) continue;
    const WgmmaTiles tiles = split_k_tiles(device, size, width);
    if (tiles.cost <= best.cost) best = tiles;
    if (width >= *std::ranges::max_element(size.columns)) break;
  }
  if (size.stages_y) best.staged = best.columns / kWgmmaBoxRows * kWgmmaBoxRows;
  best.stages = (kSharedBytes - best.staged_bytes()) / best.stage_bytes(size.full_boxes);
  return best;
}

}  // namespace clora
