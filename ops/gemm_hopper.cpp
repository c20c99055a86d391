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
// One product is at most so wide.
constexpr std::uint32_t kMostColumns = 256;
// Of 227 KiB that a work-group may have, the barriers left out.
constexpr std::uint32_t kSharedBytes = 226 << 10U;
// Ranks of one step of products, and of four: a box.
constexpr std::uint32_t kStepRanks = 16;
constexpr std::uint32_t kBoxRanks = 64;
// Columns of y that are stored together where its rows hold a multiple of them.
constexpr std::int64_t kAlignedColumns = 8;
// What a launch that makes s takes, in columns of tiles: reading x, a row; and beside that, a step
// of the product.
constexpr double kShrinkRow = 1.0 / 90;
constexpr double kShrinkLaunch = 120'000;

std::uint32_t u32(std::int64_t value) { return static_cast<std::uint32_t>(value); }

std::uint32_t units_of(const Context& context) {
  return std::max(1U, context.device().compute_units);
}

// Columns of a in a tile's products; 0 where s is not made there.
std::uint32_t shrink_of(const GemmProduct& p) {
  if (!p.makes_s()) return 0;
  return p.rank() <= kStepRanks ? kStepRanks : kBoxRanks;
}

WgmmaTiles tiles_of(const Context& context, const GemmProduct& p, std::uint32_t shrink) {
  return wgmma_tiles(u32(p.rows()), u32(p.columns()), units_of(context), shrink);
}

// Of u as boxes, and of its products.
std::uint32_t rank_steps(const GemmProduct& p) {
  if (p.rank() == 0) return 0;
  return (p.rank() <= kStepRanks ? kStepRanks : kBoxRanks) / kStepRanks;
}

// t in bf16, which the caller may have made.
Bf16Rows rounded(Batch& batch, const Tensor& t, const Tensor& given) {
  return record_bf16_rows(batch, given.empty() ? t : given);
}

// x, w, s (or a, of which s is made) and u as the kernel reads them. What is absent is x.
struct Operands {
  std::array<MappedMatrix, 4> of;

  Operands(Batch& batch, const GemmProduct& p, const WgmmaTiles& tiles) {
    const MappedMatrix x{record_bf16_rows(batch, p.x), kTileRows};
    of = {x, {record_bf16_rows(batch, p.w, p.alpha), p.backward ? kBoxRows : tiles.columns}, x, x};
    if (p.rank() == 0) return;
    const LowRankTerm& term = p.low_rank;
    of[2] = p.makes_s() ? MappedMatrix{rounded(batch, term.a, term.a_rounded), tiles.shrink}
                        : MappedMatrix{record_bf16_rows(batch, term.s, term.scale), kTileRows};
    of[3] = {rounded(batch, term.u, term.u_rounded), rank_steps(p) * kStepRanks};
  }
  const Tensor& data(std::size_t i) const { return of.at(i).matrix.data; }
};

}  // namespace

WgmmaTiles wgmma_tiles(std::uint32_t rows, std::uint32_t columns, std::uint32_t units,
                       std::uint32_t shrink) {
  WgmmaTiles best;
  best.cost = std::numeric_limits<std::uint32_t>::max();
  for (const std::uint32_t width : {256U, 224U, 192U, 128U, 64U}) {
    if (width + shrink > kMostColumns || (shrink > kStepRanks && width == 224)) continue;
    const std::uint32_t tiles = divide_up(rows, kTileRows) * divide_up(columns, width);
    const std::uint32_t cost = divide_up(tiles, units) * (width + shrink + kTileOverhead);
    if (cost < best.cost) best = {.columns = width, .shrink = shrink, .stages = 0, .cost = cost};
  }
  const auto held = static_cast<std::uint32_t>(round_up(best.columns, kBoxRows));
  best.stages = kSharedBytes / (128 * (kTileRows + std::max(held, best.width())));
  return best;
}

bool gemm_wgmma_makes_s(const Context& context, const GemmProduct& p) {
  if (p.backward || p.rank() > std::int64_t{kBoxRanks}) return false;
  const double apart = tiles_of(context, p, 0).cost + kShrinkRow * static_cast<double>(p.rows()) +
                       kShrinkLaunch / static_cast<double>(p.steps());
  return tiles_of(context, p, shrink_of(p)).cost <= apart;
}

void record_gemm_wgmma(Batch& batch, const GemmProduct& p) {
  Context& context = batch.context();
  const WgmmaTiles tiles = tiles_of(context, p, shrink_of(p));
  const Operands operands(batch, p, tiles);
  const Tensor maps = prepare_tensor_maps(batch, operands.of, "gemm/tensor map");
  Defines defines;
  defines.set("COLUMNS", tiles.columns).set("WIDTH", tiles.width()).set("STAGES", tiles.stages);
  defines.set("RANK_STEPS", rank_steps(p));
  if (tiles.shrink > 0) defines.set("SHRINK", tiles.shrink);
  if (p.backward) defines.set("TRANSPOSED");
  if (p.y.type() == DType::bf16) defines.set("Y_BF16");
  if (p.makes_s() && p.low_rank.s.type() == DType::bf16) defines.set("KEPT_BF16");
  if (p.columns() % kAlignedColumns == 0) defines.set("ALIGNED");
  Launch launch{context.kernel(kGemmWgmma, "gemm_wgmma", defines),
                groups_of(kItems, units_of(context)), p.cost(),
                p.backward ? "gemm/backward" : "gemm/forward"};
  batch.launch(std::move(launch), p.y, maps, operands.data(0), operands.data(1), operands.data(2),
               operands.data(3), p.start.empty() ? p.y : p.start, p.bias.empty() ? p.y : p.bias,
               p.makes_s() ? p.low_rank.s : p.y, u32(p.rows()), u32(p.columns()), u32(p.steps()),
               u32(p.rank()), std::uint32_t{!p.start.empty()}, std::uint32_t{!p.bias.empty()},
               kBand, p.low_rank.a_scale, p.low_rank.scale,
               u32(p.split_rows > 0 ? p.split_rows : p.rows()));
}

}  // namespace clora
