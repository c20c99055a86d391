// The tiling of a gemm and its split into work-groups: the source of the -D options and the grid.
#pragma once

#include <cstdint>
#include <optional>

#include "clora/runtime/context.hpp"
#include "clora/runtime/device/capabilities.hpp"
#include "clora/runtime/device/device.hpp"
#include "clora/runtime/programs/program_cache.hpp"

namespace clora {

// One product: y [rows, columns]; `k` terms are summed per element, low-rank ones included.
struct GemmSize {
  std::uint32_t rows = 0;
  std::uint32_t columns = 0;
  std::uint32_t k = 0;
};

// The costs by which products are split over the units of a CPU device, and by which a shrink is
// fused (ops/tuned/costs.hpp). A panel is 32 columns of w; its unit is a row of x that is
// multiplied with it.
struct GemmCpuCosts {
  static constexpr std::string_view kModel = "gemm_cpu";
  double expansion_rows = 0;         // of expanding a panel: of gemm_cpu.cl and gemm_bf16_cpu.cl,
  double packed_expansion_rows = 0;  // and of gemm_packed_cpu.cl, which reads it once
  // Of staging a row for the panels expanded at once, in panels. gemm_cpu.cl stages no pairs.
  double staging_panels = 0;         // as pairs of bf16, for gemm_bf16_cpu.cl
  double packed_staging_panels = 0;  // for gemm_packed_cpu.cl
  // Of the dots of a fused shrink (cl/gemm/cpu/shrink_dots_cpu.clh), relative to tiles of as many
  // products: loads, rounding and folds.
  double dots = 0;
  double launch_flops = 0;  // a launch before a product next to its own work, in flops of a unit
  double narrow = 0;        // the slowdown of a product of up to 16 columns against wider ones

  static void each(auto& costs, auto f) {
    f("expansion_rows", costs.expansion_rows);
    f("packed_expansion_rows", costs.packed_expansion_rows);
    f("staging_panels", costs.staging_panels);
    f("packed_staging_panels", costs.packed_staging_panels);
    f("dots", costs.dots);
    f("launch_flops", costs.launch_flops);
    f("narrow", costs.narrow);
  }
};

// The costs of cl/gemm/gemm_skinny.cl, the kernel for few rows that is not for CPUs
// (ops/tuned/costs.hpp).
struct GemmSkinnyCosts {
  static constexpr std::string_view kModel = "gemm_skinny";
  static constexpr std::uint32_t kMaxRows = 16;  // whose sums an item has registers for

  // The rows up to which a product is skinny, kMaxRows at most: of portable kernels, and with a
  // matrix unit, whose kernels for more rows read w as fast.
  double rows_portable = 0;
  double rows_matrix = 0;
  // Columns of a compute unit from which teams compute several rows of w: with fewer, the teams are
  // not balanced.
  double team_columns = 0;
  // Each group repeats a fused shrink: up to this many multiplications in total, that is faster
  // than a separate launch.
  double shrink_products = 0;

  static void each(auto& costs, auto f) {
    f("rows_portable", costs.rows_portable);
    f("rows_matrix", costs.rows_matrix);
    f("team_columns", costs.team_columns);
    f("shrink_products", costs.shrink_products);
  }
};

// The scratch of a work-group of cl/gemm/cpu/gemm_cpu.cl and cl/gemm/cpu/gemm_bf16_cpu.cl.
struct GemmTiles {
  static constexpr std::uint32_t kRows = 12;     // in registers
  static constexpr std::uint32_t kAmxRows = 32;  // on matrix tiles
  static constexpr std::uint32_t kColumns = 32;
  // A product of fewer rows is skinny: its own kernel is faster than a mostly empty tile.
  static constexpr std::uint32_t kSkinnyRows = 12;
  // Up to this many columns the f32 kernel computes half a tile.
  static constexpr std::uint32_t kNarrowColumns = 16;

  std::uint32_t rows = kRows;
  std::uint32_t panel_steps = 0;    // of all panels that are expanded at once, together
  std::uint32_t block_steps = 0;    // maximum reduction steps at once, a multiple of 32
  std::uint32_t element_bytes = 4;  // of an operand in scratch: f32 or bf16

  void define(Defines& defines) const;
  std::uint32_t stage_stride() const;  // elements between staged rows
  std::size_t scratch_bytes() const;
};
// The tiles that fit the device's local memory. The same for every product, so there is one program
// per storage type.
GemmTiles gemm_tiles(const Device& device);
// REQUIRES: bf16_dots.
GemmTiles gemm_bf16_tiles(const Device& device, const Capabilities& capabilities);

// Whether a forward product of `rows` rows is skinny (small M): on CPUs less than a tile, on other
// devices as the costs of cl/gemm/gemm_skinny.cl say.
bool is_skinny(const Context& context, std::int64_t rows);

// Whether a product's operands are rounded to bf16. Those of skinny forward products are not, nor,
// on CPUs, those of narrow outputs.
bool rounds_to_bf16(const Context& context, const GemmSize& size, bool backward);

// The scratch of a work-group of cl/gemm/cpu/gemm_packed_cpu.cl. Rows of x fill half of a
// second-level cache of 1 MiB, so a panel of w and the output fit next to them.
struct GemmPackedTiles {
  static constexpr std::uint32_t kRankSteps = 64;

  std::uint32_t steps_an_element = 1;  // 2: pairs of bf16
  std::uint32_t tile_rows = GemmTiles::kRows;
  std::uint32_t block_elements = 1024;  // of w and x at once, one or two steps each
  std::uint32_t chunk_rows = 96;        // a multiple of tile_rows

  void define(Defines& defines) const;
  std::uint32_t block_steps() const { return block_elements * steps_an_element; }
  // The granularity of a group's rows: matrix tiles are not split, register tiles may end at any 4.
  std::uint32_t row_step() const { return tile_rows == GemmTiles::kAmxRows ? tile_rows : 4; }
  // For share_gemm(). The panels are so long that rows are staged once for all of them.
  GemmTiles as_tiles(const GemmSize& size) const;
  std::uint32_t stage_stride() const;  // elements between staged rows
  std::size_t scratch_bytes() const;
};
// The tiles with as many rows at once as fit the device's local memory; empty if none fit.
std::optional<GemmPackedTiles> gemm_packed_tiles(const Device& device,
                                                 const Capabilities& capabilities, bool bf16);

// The distribution of one product over work-groups, and its steps at a time.
struct GemmShares {
  std::uint32_t column_groups = 1;
  std::uint32_t row_groups = 1;
  std::uint32_t panels_per_group = 1;
  std::uint32_t panels_at_once = 1;
  std::uint32_t tiles_per_group = 1;
  std::uint32_t block_steps = 0;
};
// What a group's work costs next to its products, in the units of GemmCpuCosts.
struct GemmShareCosts {
  double expansion_rows = 0;  // of a panel
  double staging_panels = 0;  // of a row, for the panels expanded at once
  double shrink_panels = 0;   // of the shrink of a row
};
// shrink_panels: of the products of a row with a of a fused shrink, in panels; 0 without one.
GemmShareCosts tiles_costs(const GemmCpuCosts& costs, bool bf16, double shrink_panels);
GemmShareCosts packed_costs(const GemmCpuCosts& costs, double shrink_panels);

// units: compute units of the device.
GemmShares share_gemm(const GemmSize& size, const GemmTiles& tiles, const GemmShareCosts& costs,
                      std::uint32_t units);

// Whether twelve rows of `k` floats map to so few sets of a first-level cache (64 sets of 64 bytes,
// 8 ways) that reading them in parallel evicts them.
bool rows_share_cache_sets(std::int64_t k);

}  // namespace clora
