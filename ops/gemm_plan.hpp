// How a gemm is cut into work-groups: the -D options and the grid come from the same numbers.
#pragma once

#include <cstdint>
#include <optional>

#include "runtime/device.hpp"
#include "runtime/program_cache.hpp"
#include "runtime/variant.hpp"

namespace clora {

// One product: y [rows, columns], `k` products summed for each element (low-rank ones too).
struct GemmSize {
  std::uint32_t rows = 0;
  std::uint32_t columns = 0;
  std::uint32_t k = 0;
};

// cl/gemm_cpu.cl and cl/gemm_bf16_cpu.cl: what a work-group holds in scratch.
struct GemmTiles {
  static constexpr std::uint32_t kRows = 12;     // in registers
  static constexpr std::uint32_t kAmxRows = 32;  // on matrix tiles
  static constexpr std::uint32_t kColumns = 32;
  // A product of fewer rows is skinny: its own kernel is faster than a mostly empty tile.
  static constexpr std::uint32_t kSkinnyRows = 12;
  // The same of the kernel that is not for CPUs (cl/gemm_skinny.cl), and where there is one for
  // many rows that reads w as fast: on an H200, 18944 x 3584 takes 48, 53, 104 and 199 us with 1,
  // 4, 8 and 16 rows.
  static constexpr std::uint32_t kSkinnyRowsPortable = 17;
  static constexpr std::uint32_t kSkinnyRowsWgmma = 5;
  // Up to so many columns the f32 kernel makes half a tile.
  static constexpr std::uint32_t kNarrowColumns = 16;

  std::uint32_t rows = kRows;
  std::uint32_t panel_steps = 0;    // of all the panels that are expanded at once, together
  std::uint32_t block_steps = 0;    // reduction steps at once at most, a multiple of 32
  std::uint32_t element_bytes = 4;  // of an operand in scratch: f32 or bf16
  // What expanding a panel costs, as so many rows of products with it; and staging a row for the
  // panels at once, as so many panels.
  double expansion_rows = 12;
  double staging_panels = 0;
  double shrink_panels = 0;  // what the shrink of a row takes, likewise

  void define(Defines& defines) const;
  std::uint32_t stage_stride() const;  // elements from one staged row to the next
  std::size_t scratch_bytes() const;
};
// The tiles that fit the device's local memory. The same for every product, so that there is one
// program a storage type.
GemmTiles gemm_tiles(const Device& device);
// REQUIRES: a variant that rounds to bf16.
GemmTiles gemm_bf16_tiles(const Device& device, Variant variant);

// Whether a forward product of so many rows is skinny (small M) in this variant.
constexpr bool is_skinny(Variant variant, std::int64_t rows) {
  return rows < (is_for_cpus(variant)        ? GemmTiles::kSkinnyRows
                 : variant == Variant::wgmma ? GemmTiles::kSkinnyRowsWgmma
                                             : GemmTiles::kSkinnyRowsPortable);
}

// Whether a product's operands are rounded to bf16 in this variant: forward, those of skinny ones
// are not, and on CPUs those of narrow outputs.
bool rounds_to_bf16(Variant variant, const GemmSize& size, bool backward);

// cl/gemm_packed_cpu.cl: what a work-group holds in scratch. Half of a second-level cache of 1 MiB:
// rows of x, beside which a panel of w and what is written have space.
struct GemmPackedTiles {
  static constexpr std::uint32_t kRankSteps = 64;
  static constexpr double kExpansionRows = 1;  // as in GemmTiles: w comes from afar once
  static constexpr double kStagingPanels = 0.5;

  std::uint32_t steps_an_element = 1;  // 2: pairs of bf16
  std::uint32_t tile_rows = GemmTiles::kRows;
  std::uint32_t block_elements = 1024;  // of w and x at once, a step or two each
  std::uint32_t chunk_rows = 96;        // a multiple of tile_rows

  void define(Defines& defines) const;
  std::uint32_t block_steps() const { return block_elements * steps_an_element; }
  // What groups' rows are cut at: matrix tiles are whole, those in registers may end at each four.
  std::uint32_t row_step() const { return tile_rows == GemmTiles::kAmxRows ? tile_rows : 4; }
  // As GemmTiles has it: rows are staged once for all panels.
  static std::uint32_t panel_steps(const GemmSize& size) {
    return size.columns * (size.k + GemmTiles::kColumns);
  }
  std::uint32_t stage_stride() const;  // elements from one staged row to the next
  std::size_t scratch_bytes() const;
};
// As many rows at once as the device's local memory has space for; none where it has too little.
std::optional<GemmPackedTiles> gemm_packed_tiles(const Device& device, Variant variant, bool bf16);

// The shares of work-groups and the steps at a time of one product.
struct GemmShares {
  std::uint32_t column_groups = 1;
  std::uint32_t row_groups = 1;
  std::uint32_t panels_per_group = 1;
  std::uint32_t panels_at_once = 1;
  std::uint32_t tiles_per_group = 1;
  std::uint32_t block_steps = 0;
};
GemmShares share_gemm(const GemmSize& size, const GemmTiles& tiles, const Device& device);

// Whether twelve rows of `k` floats begin in so few sets of a first-level cache (64 sets of 64
// bytes, 8 ways) that reading them side by side evicts them.
bool rows_share_cache_sets(std::int64_t k);

}  // namespace clora
