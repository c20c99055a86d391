// The tiling of a gemm and its split into work-groups: the source of the -D options and the grid.
#pragma once

#include <cstdint>
#include <optional>

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

// The scratch of a work-group of cl/gemm/cpu/gemm_cpu.cl and cl/gemm/cpu/gemm_bf16_cpu.cl.
struct GemmTiles {
  static constexpr std::uint32_t kRows = 12;     // in registers
  static constexpr std::uint32_t kAmxRows = 32;  // on matrix tiles
  static constexpr std::uint32_t kColumns = 32;
  // A product of fewer rows is skinny: its own kernel is faster than a mostly empty tile.
  static constexpr std::uint32_t kSkinnyRows = 12;
  // The limits of cl/gemm/gemm_skinny.cl, the kernel that is not for CPUs: in general, and with a
  // matrix unit, whose kernels for more rows read w as fast. On an H200, cl/gemm/gemm_skinny.cl
  // takes 48, 53, 104 and 199 us for 18944 x 3584 with 1, 4, 8 and 16 rows; on an H100,
  // cl/gemm/gemm_matrix.cl takes 52 us with 16.
  static constexpr std::uint32_t kSkinnyRowsPortable = 17;
  static constexpr std::uint32_t kSkinnyRowsMatrix = 5;
  // Up to this many columns the f32 kernel computes half a tile.
  static constexpr std::uint32_t kNarrowColumns = 16;

  std::uint32_t rows = kRows;
  std::uint32_t panel_steps = 0;    // of all panels that are expanded at once, together
  std::uint32_t block_steps = 0;    // maximum reduction steps at once, a multiple of 32
  std::uint32_t element_bytes = 4;  // of an operand in scratch: f32 or bf16
  // The cost of expanding a panel, in rows multiplied with it, and of staging a row for the panels
  // expanded at once, in panels.
  double expansion_rows = 12;
  double staging_panels = 0;
  double shrink_panels = 0;  // the cost of the shrink of a row, in panels

  void define(Defines& defines) const;
  std::uint32_t stage_stride() const;  // elements between staged rows
  std::size_t scratch_bytes() const;
};
// The tiles that fit the device's local memory. The same for every product, so there is one program
// per storage type.
GemmTiles gemm_tiles(const Device& device);
// REQUIRES: bf16_dots.
GemmTiles gemm_bf16_tiles(const Device& device, const Capabilities& capabilities);

// Whether a forward product of `rows` rows is skinny (small M) for kernels with these capabilities.
bool is_skinny(const Capabilities& capabilities, std::int64_t rows);

// Whether a product's operands are rounded to bf16. Those of skinny forward products are not, nor,
// on CPUs, those of narrow outputs.
bool rounds_to_bf16(const Capabilities& capabilities, const GemmSize& size, bool backward);

// The scratch of a work-group of cl/gemm/cpu/gemm_packed_cpu.cl. Rows of x fill half of a
// second-level cache of 1 MiB, so a panel of w and the output fit next to them.
struct GemmPackedTiles {
  static constexpr std::uint32_t kRankSteps = 64;
  static constexpr double kExpansionRows = 1;  // as in GemmTiles: w is read from memory once
  static constexpr double kStagingPanels = 0.5;

  std::uint32_t steps_an_element = 1;  // 2: pairs of bf16
  std::uint32_t tile_rows = GemmTiles::kRows;
  std::uint32_t block_elements = 1024;  // of w and x at once, one or two steps each
  std::uint32_t chunk_rows = 96;        // a multiple of tile_rows

  void define(Defines& defines) const;
  std::uint32_t block_steps() const { return block_elements * steps_an_element; }
  // The granularity of a group's rows: matrix tiles are not split, register tiles may end at any 4.
  std::uint32_t row_step() const { return tile_rows == GemmTiles::kAmxRows ? tile_rows : 4; }
  // As in GemmTiles, large enough that rows are staged once for all panels.
  static std::uint32_t panel_steps(const GemmSize& size) {
    return size.columns * (size.k + GemmTiles::kColumns);
  }
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
GemmShares share_gemm(const GemmSize& size, const GemmTiles& tiles, const Device& device);

// Whether twelve rows of `k` floats map to so few sets of a first-level cache (64 sets of 64 bytes,
// 8 ways) that reading them in parallel evicts them.
bool rows_share_cache_sets(std::int64_t k);

}  // namespace clora
