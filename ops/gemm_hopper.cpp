#include "ops/gemm_hopper.hpp"

#include <array>
#include <limits>

#include "ops/launch_shape.hpp"
#include "ops/reduction_grid.hpp"
#include "ops/tensor_maps.hpp"

namespace clora {
namespace {

constexpr std::uint32_t kTileRows = 128;
constexpr std::uint32_t kBoxRows = 64;  // of an operand whose rows are steps
constexpr std::size_t kItems = 384;
// Tile rows walked column by column: 4 to 32 differ by 2 to 4 %, in no clear order.
constexpr std::uint32_t kBand = 16;
// What a tile costs beside its columns: filling the ring and storing, in columns.
constexpr std::uint32_t kTileOverhead = 32;
// Of 227 KiB that a work-group may have, the barriers left out.
constexpr std::uint32_t kSharedBytes = 226 << 10U;

std::uint32_t u32(std::int64_t value) { return static_cast<std::uint32_t>(value); }

}  // namespace

WgmmaTiles wgmma_tiles(std::uint32_t rows, std::uint32_t columns, std::uint32_t units) {
  WgmmaTiles best;
  std::uint32_t best_cost = std::numeric_limits<std::uint32_t>::max();
  for (const std::uint32_t width : {256U, 224U, 192U, 128U, 64U}) {
    const std::uint32_t tiles = divide_up(rows, kTileRows) * divide_up(columns, width);
    const std::uint32_t cost = divide_up(tiles, units) * (width + kTileOverhead);
    if (cost >= best_cost) continue;
    best_cost = cost;
    best.columns = width;
  }
  const auto held = static_cast<std::uint32_t>(round_up(best.columns, kBoxRows));
  best.stages = kSharedBytes / (128 * (kTileRows + held));
  return best;
}

void record_gemm_wgmma(Batch& batch, const GemmProduct& p) {
  Context& context = batch.context();
  const std::uint32_t units = std::max(1U, context.device().compute_units);
  const WgmmaTiles tiles = wgmma_tiles(u32(p.rows()), u32(p.columns()), units);
  const Bf16Rows x = record_bf16_rows(batch, p.x);
  const Bf16Rows w = record_bf16_rows(batch, p.w, p.alpha);
  const bool adapted = p.rank() > 0;
  const Bf16Rows s = adapted ? record_bf16_rows(batch, p.low_rank.s) : x;
  const Bf16Rows u = adapted ? record_bf16_rows(batch, p.low_rank.u, p.low_rank.scale) : w;
  const std::array<MappedMatrix, 4> operands{
      {{x, kTileRows}, {w, p.backward ? kBoxRows : tiles.columns}, {s, kTileRows}, {u, kBoxRows}}};
  const Tensor maps = prepare_tensor_maps(batch, operands, "gemm/tensor map");
  Defines defines;
  defines.set("COLUMNS", tiles.columns).set("STAGES", tiles.stages);
  if (p.backward) defines.set("TRANSPOSED");
  Launch launch{{}, {}, gemm_cost(p.rows(), p.w), p.backward ? "gemm/backward" : "gemm/forward"};
  launch.cost.flops += 2.0 * static_cast<double>(p.rows() * p.columns() * p.rank());
  launch.kernel = context.kernel(kGemmWgmma, "gemm_wgmma", defines);
  launch.grid = groups_of(kItems, units);
  batch.launch(std::move(launch), p.y, maps, x.data, w.data, s.data, u.data,
               p.start.empty() ? p.y : p.start, p.bias.empty() ? p.y : p.bias, u32(p.rows()),
               u32(p.columns()), u32(p.steps()), u32(p.rank()), std::uint32_t{!p.start.empty()},
               std::uint32_t{!p.bias.empty()}, kBand);
}

}  // namespace clora
