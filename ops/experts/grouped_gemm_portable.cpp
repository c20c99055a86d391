// cl/experts/grouped_gemm.cl
#include <algorithm>
#include <array>

#include "clora/ops/quant/quant.hpp"
#include "ops/experts/grouped_gemm_kernels.hpp"
#include "ops/gemm/gemm_kernels.hpp"
#include "ops/gemm/gemm_portable.hpp"
#include "ops/launch_grids.hpp"
#include "runtime/integer_sizes.hpp"

namespace clora {
namespace {

// The first tile that fits the device, whose rows divide those of the plan's tiles, and which is
// narrow if y is: the ranks of an adapter.
constexpr std::int64_t kNarrow = 32;
constexpr std::array<GemmTile, 9> kTiles{{{128, 128, 8, 8, 8},
                                          {64, 64, 8, 8, 8},
                                          {32, 64, 16, 4, 4},
                                          {16, 64, 16, 4, 4},
                                          {4, 64, 16, 4, 4},
                                          {64, 32, 16, 8, 4},
                                          {32, 32, 8, 4, 4},
                                          {16, 32, 16, 4, 4},
                                          {4, 32, 16, 4, 4}}};

const GemmTile& tile_of(const Device& device, const GroupedProduct& p) {
  const bool is_narrow = p.columns() <= kNarrow;
  const auto suits = [&](const GemmTile& tile) {
    return p.plan.tile % tile.rows == 0 && (tile.columns <= kNarrow) == is_narrow &&
           tile.fits(device);
  };
  const auto at = std::ranges::find_if(kTiles, suits);
  return at == kTiles.end() ? kTiles.back() : *at;
}

bool starts_aligned(const Tensor& t) {
  return t.offset_bytes() % bytes_of(t.type(), GemmTile::kVector) == 0;
}

// Whether rows of `length` elements of a tensor are aligned to four elements; blocks of quantised
// and packed weights need no alignment, and adapters' matrices are aligned in their buffer.
bool has_rows_of_fours(std::int64_t length, const Tensor& t) {
  if (length % GemmTile::kVector != 0) return false;
  return is_quantised(t.type()) || t.layout() == Layout::packed || starts_aligned(t);
}

Defines defines_of(const GroupedProduct& p, const GemmTile& tile, const Device& device) {
  const Tensor& w = p.w();
  Defines defines;
  set_weight_type(defines, w);
  defines.set("X_TYPE", name_of(p.x.type())).set("Y_TYPE", name_of(p.y.type()));
  defines.set("BACKWARD", p.backward ? 1 : 0);
  if (p.rows == ExpertRows::of_entries) defines.set("GATHER");
  if (p.rank() > 0) defines.set("LOW_RANK");
  if (p.accumulates) defines.set("ACCUMULATE");
  if (!p.matrices.offsets.empty()) defines.set("W_OFFSETS");
  const bool forward_k = p.backward || has_rows_of_fours(p.k(), w);
  const bool backward_n = !p.backward || has_rows_of_fours(p.columns(), w);
  if (has_rows_of_fours(p.k(), p.x) && forward_k) defines.set("K_OF_FOURS");
  if (has_rows_of_fours(p.columns(), p.y) && backward_n) defines.set("N_OF_FOURS");
  defines.set("TILE_ROWS", tile.rows).set("TILE_COLUMNS", tile.columns).set("STEPS", tile.steps);
  defines.set("ITEM_ROWS", tile.item_rows).set("ITEM_COLUMNS", tile.item_columns);
  set_unrolling(defines, device, tile.steps);
  return defines;
}

}  // namespace

void record_grouped_portable(Batch& batch, const GroupedProduct& p) {
  const Device& device = batch.context().device();
  const GemmTile& tile = tile_of(device, p);
  const std::size_t row_tiles = static_cast<std::size_t>(p.plan.slot_count()) / tile.rows;
  Launch launch{
      batch.context().kernel(kGroupedPortable, "grouped_gemm", defines_of(p, tile, device)),
      {{row_tiles * tile.items(), divide_up(u32(p.columns()), tile.columns), 1},
       {tile.items(), 1, 1}},
      p.cost(),
      p.backward ? "grouped_gemm/backward" : "grouped_gemm/forward"};
  const ExpertLowRank& term = p.low_rank;
  batch.launch(std::move(launch), p.y, p.x, p.w(), or_else(p.matrices.offsets, p.x),
               or_else(term.s, p.x), or_else(term.u, p.x), or_else(term.offsets, p.x),
               p.plan.entries, p.plan.tile_experts, u32(p.plan.tile / tile.rows),
               u32(p.plan.slot_count()), u32(p.columns()), p.is_low_rank_alone ? 0U : u32(p.k()),
               u32(p.rank()), u32(p.plan.experts_of_row()), p.scale, term.scale);
}

}  // namespace clora
