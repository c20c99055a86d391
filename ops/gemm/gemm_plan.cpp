#include "ops/gemm/gemm_plan.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/tuned/costs.hpp"
#include "runtime/integer_sizes.hpp"

namespace clora {
namespace {

// Staged rows are padded by one cache line so that twelve of them never share a cache set.
constexpr std::uint32_t kStagePaddingBytes = 64;

// The panels expanded at once fit a second-level cache of 1 MiB, with space for other data.
constexpr std::uint32_t kPanelBytes = 560 << 10U;

// Returns a multiple of 32 steps.
std::uint32_t panel_steps_in(std::uint32_t bytes, std::uint32_t element_bytes) {
  return bytes / (GemmTiles::kColumns * element_bytes) / 32 * 32;
}

// Reduces panel_steps, then block_steps, until the scratch fits.
GemmTiles fit(GemmTiles tiles, const Device& device) {
  const auto fits = [&] { return tiles.scratch_bytes() <= device.local_memory_bytes; };
  while (!fits() && tiles.panel_steps > tiles.block_steps) tiles.panel_steps -= 32;
  while (!fits() && tiles.block_steps > 32) {
    tiles.block_steps -= 32;
    tiles.panel_steps = tiles.block_steps;
  }
  return tiles;
}

double slowest(double groups, double units, double cost_of_group) {
  return std::max(1.0, std::ceil(groups / units)) * cost_of_group;
}

}  // namespace

std::uint32_t GemmTiles::stage_stride() const {
  return block_steps + kStagePaddingBytes / element_bytes;
}

void GemmTiles::define(Defines& defines) const {
  defines.set("PANEL_STEPS", panel_steps);
  defines.set("BLOCK_STEPS", block_steps);
  defines.set("STAGE_STRIDE", stage_stride());
}

std::size_t GemmTiles::scratch_bytes() const {
  return std::size_t{element_bytes} *
         (std::size_t{panel_steps} * kColumns + std::size_t{rows} * stage_stride());
}

GemmTiles gemm_tiles(const Device& device) {
  return fit(
      {.panel_steps = panel_steps_in(kPanelBytes, 4), .block_steps = 640, .element_bytes = 4},
      device);
}

GemmTiles gemm_bf16_tiles(const Device& device, const Capabilities& capabilities) {
  const std::uint32_t rows = capabilities.amx ? GemmTiles::kAmxRows : GemmTiles::kRows;
  return fit({.rows = rows,
              .panel_steps = panel_steps_in(kPanelBytes, 2),
              .block_steps = 1280,
              .element_bytes = 2},
             device);
}

std::uint32_t GemmPackedTiles::stage_stride() const {
  return block_elements + kRankSteps / steps_an_element +
         kStagePaddingBytes / std::uint32_t{sizeof(float)};
}

void GemmPackedTiles::define(Defines& defines) const {
  defines.set("BLOCK_STEPS", block_steps());
  defines.set("RANK_STEPS", kRankSteps);
  defines.set("STAGE_STRIDE", stage_stride());
  if (steps_an_element == 2) defines.set("BF16");
  if (tile_rows == GemmTiles::kAmxRows) defines.set("AMX");
}

GemmTiles GemmPackedTiles::as_tiles(const GemmSize& size) const {
  return {.rows = row_step(),
          .panel_steps = size.columns * (size.k + GemmTiles::kColumns),
          .block_steps = block_steps()};
}

std::size_t GemmPackedTiles::scratch_bytes() const {
  const std::size_t panel = std::size_t{kRankSteps} / steps_an_element * GemmTiles::kColumns;
  return sizeof(float) * (panel + std::size_t{chunk_rows} * (stage_stride() + kRankSteps));
}

std::optional<GemmPackedTiles> gemm_packed_tiles(const Device& device,
                                                 const Capabilities& capabilities, bool bf16) {
  const bool amx = bf16 && capabilities.amx;
  GemmPackedTiles packed{.steps_an_element = bf16 ? 2U : 1U};
  // Matrix tiles consume a panel faster than a second-level cache delivers it: a block of it fits
  // the first-level cache.
  if (amx) {
    packed = {.steps_an_element = 2,
              .tile_rows = GemmTiles::kAmxRows,
              .block_elements = 256,
              .chunk_rows = 256};
  }
  while (packed.scratch_bytes() > device.local_memory_bytes) {
    if (packed.chunk_rows == packed.tile_rows) return std::nullopt;
    packed.chunk_rows -= packed.tile_rows;
  }
  return packed;
}

bool is_skinny(const Context& context, std::int64_t rows) {
  const Capabilities& capabilities = context.capabilities();
  if (capabilities.cpu) return rows < GemmTiles::kSkinnyRows;
  const GemmSkinnyCosts& costs = costs_of<GemmSkinnyCosts>(context);
  const double limit = capabilities.has_gpu_matrices() ? costs.rows_matrix : costs.rows_portable;
  return rows <= GemmSkinnyCosts::kMaxRows && static_cast<double>(rows) <= limit;
}

bool rounds_to_bf16(const Context& context, const GemmSize& size, bool backward) {
  if (!backward && is_skinny(context, size.rows)) return false;
  const Capabilities& capabilities = context.capabilities();
  if (capabilities.has_gpu_matrices()) return true;
  return capabilities.bf16_dots && size.columns > GemmTiles::kNarrowColumns;
}

GemmShareCosts tiles_costs(const GemmCpuCosts& costs, bool bf16, double shrink_panels) {
  return {.expansion_rows = costs.expansion_rows,
          .staging_panels = bf16 ? costs.staging_panels : 0,
          .shrink_panels = costs.dots * shrink_panels};
}

GemmShareCosts packed_costs(const GemmCpuCosts& costs, double shrink_panels) {
  return {.expansion_rows = costs.packed_expansion_rows,
          .staging_panels = costs.packed_staging_panels,
          .shrink_panels = shrink_panels};
}

GemmShares share_gemm(const GemmSize& size, const GemmTiles& tiles, const GemmShareCosts& costs,
                      std::uint32_t units) {
  const std::uint32_t panels = divide_up(size.columns, GemmTiles::kColumns);
  const std::uint32_t row_tiles = divide_up(size.rows, tiles.rows);
  const std::uint32_t blocks = divide_up(size.k, tiles.block_steps);
  GemmShares best;
  best.block_steps = static_cast<std::uint32_t>(round_up(divide_up(size.k, blocks), 32));
  const std::uint32_t at_once = std::max(1U, tiles.panel_steps / best.block_steps);
  double best_cost = std::numeric_limits<double>::max();
  // Up to four groups per unit; chooses the split whose slowest unit finishes first.
  for (std::uint32_t columns = 1; columns <= std::min(panels, 4 * units); ++columns) {
    for (std::uint32_t rows = 1; rows <= std::min(row_tiles, 4 * units / columns); ++rows) {
      const std::uint32_t panels_each = divide_up(panels, columns);
      const std::uint32_t tiles_each = divide_up(row_tiles, rows);
      const double rows_each = tiles_each * static_cast<double>(tiles.rows);
      const double group = rows_each * (panels_each + costs.shrink_panels +
                                        costs.staging_panels * divide_up(panels_each, at_once)) +
                           panels_each * costs.expansion_rows;
      const double cost = slowest(columns * rows, units, group);
      if (cost > best_cost) continue;
      best_cost = cost;
      best.panels_per_group = panels_each;
      best.tiles_per_group = tiles_each;
    }
  }
  best.panels_at_once = std::min(at_once, best.panels_per_group);
  best.column_groups = divide_up(panels, best.panels_per_group);
  best.row_groups = divide_up(row_tiles, best.tiles_per_group);
  return best;
}

bool rows_share_cache_sets(std::int64_t k) { return k * 4 % 4096 == 0; }

}  // namespace clora
