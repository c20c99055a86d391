#include "ops/gemm_hopper.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <limits>
#include <vector>

#include "ops/launch_shape.hpp"
#include "ops/reduction_grid.hpp"
#include "ops/tensor_maps.hpp"

namespace clora {
namespace {

constexpr std::size_t kMostMembers = 3;
constexpr std::size_t kMemberMaps = 5;
constexpr std::uint32_t kTileRows = 128;
constexpr std::uint32_t kBoxRows = 64;    // of an operand whose rows are steps, and of y
constexpr std::uint32_t kRowBytes = 128;  // of a box
constexpr std::size_t kItems = 384;
// Tile rows walked column by column: 4 to 32 differ by 2 to 4 %, in no clear order.
constexpr std::uint32_t kBand = 16;
// What a tile costs beside its columns: filling the ring and storing, in columns.
constexpr std::uint32_t kTileOverhead = 32;
// Narrower tiles take as long as such: they wait for x.
constexpr std::uint32_t kLeastCost = 128;
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

// Whether rows of y are whole pieces of 16 bytes.
bool is_aligned(const GemmProduct& p) { return p.columns() % kAlignedColumns == 0; }

using Members = std::span<const GemmProduct>;

WgmmaTiles tiles_of(const Context& context, Members members, std::uint32_t shrink) {
  const GemmProduct& p = members.front();
  std::array<std::uint32_t, kMostMembers> columns{u32(p.columns())};
  for (std::size_t i = 1; i < members.size() && !p.backward; ++i) {
    columns.at(i) = u32(members[i].columns());
  }
  return wgmma_tiles({.rows = u32(p.rows()),
                      .columns = columns,
                      .units = units_of(context),
                      .shrink = shrink,
                      .whole_boxes = p.backward || p.rank() > std::int64_t{kStepRanks},
                      .stages_y = p.y.type() == DType::bf16 && is_aligned(p)});
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

// x, w, s (or a, of which s is made) and u as the kernel reads them, and y as it is stored. What is
// absent is x.
std::array<MappedMatrix, kMemberMaps> operands_of(Batch& batch, const GemmProduct& p,
                                                  const WgmmaTiles& tiles, const Bf16Rows& rows) {
  const MappedMatrix x{rows, kTileRows};
  const std::uint32_t w_rows = p.backward ? kBoxRows : tiles.columns;
  std::array<MappedMatrix, kMemberMaps> of{
      x, {record_bf16_rows(batch, p.w, p.alpha), w_rows}, x, x, x};
  if (tiles.staged > 0) of[4] = {record_bf16_rows(batch, p.y), kBoxRows};
  if (p.rank() == 0) return of;
  const LowRankTerm& term = p.low_rank;
  of[2] = p.makes_s() ? MappedMatrix{rounded(batch, term.a, term.a_rounded), tiles.shrink}
                      : MappedMatrix{record_bf16_rows(batch, term.s, term.scale), kTileRows};
  of[3] = {rounded(batch, term.u, term.u_rounded), rank_steps(p) * kStepRanks};
  return of;
}

// Of all members in a row.
std::vector<MappedMatrix> operands_of(Batch& batch, Members members, const WgmmaTiles& tiles) {
  std::vector<MappedMatrix> all;
  Bf16Rows x;
  for (const GemmProduct& p : members) {
    if (all.empty() || p.backward) x = record_bf16_rows(batch, p.x);
    std::ranges::copy(operands_of(batch, p, tiles, x), std::back_inserter(all));
  }
  return all;
}

Defines defines_of(Members members, const WgmmaTiles& tiles) {
  const GemmProduct& p = members.front();
  Defines defines;
  defines.set("COLUMNS", tiles.columns).set("WIDTH", tiles.width()).set("STAGES", tiles.stages);
  defines.set("RANK_STEPS", rank_steps(p));
  if (members.size() > 1) defines.set("MEMBERS", members.size());
  if (tiles.shrink > 0) defines.set("SHRINK", tiles.shrink);
  if (tiles.staged > 0) defines.set("STAGED", tiles.staged);
  if (p.backward) defines.set("TRANSPOSED");
  if (p.y.type() == DType::bf16) defines.set("Y_BF16");
  if (p.makes_s() && p.low_rank.s.type() == DType::bf16) defines.set("KEPT_BF16");
  if (is_aligned(p)) defines.set("ALIGNED");
  return defines;
}

// The kernel's arguments in order: what members have of their own stands once for each of them, of
// two members the second for a third one that has no columns, or steps.
class Arguments {
 public:
  explicit Arguments(Members members) : members_(members) {}

  template <class Of>
  void each(Of of) {
    const std::size_t count = members_.size() == 1 ? 1 : kMostMembers;
    for (std::size_t i = 0; i < count; ++i) list_.push_back(of(std::min(i, members_.size() - 1)));
  }
  template <class Of>
  void each_size(Of of) {
    const std::size_t count = members_.size() == 1 ? 1 : kMostMembers;
    for (std::size_t i = 0; i < count; ++i) {
      list_.push_back(i < members_.size() ? u32(of(members_[i])) : 0U);
    }
  }
  void one(Argument argument) { list_.push_back(std::move(argument)); }
  std::vector<Argument> take() { return std::move(list_); }

 private:
  Members members_;
  std::vector<Argument> list_;
};

std::vector<Argument> arguments_of(Members members, const Tensor& maps,
                                   std::span<const MappedMatrix> operands) {
  const GemmProduct& p = members.front();
  const auto operand = [&](std::size_t which) {
    return [=](std::size_t i) { return operands[i * kMemberMaps + which].matrix.data; };
  };
  Arguments list(members);
  list.each([&](std::size_t i) { return members[i].y; });
  list.one(maps);
  for (std::size_t which = 0; which < kMemberMaps - 1; ++which) list.each(operand(which));
  list.one(p.start.empty() ? p.y : p.start);
  list.each([&](std::size_t i) { return p.bias.empty() ? p.y : members[i].bias; });
  list.each([&](std::size_t i) { return p.makes_s() ? members[i].low_rank.s : p.y; });
  list.one(u32(p.rows()));
  list.each_size([](const GemmProduct& member) { return member.columns(); });
  list.each_size([](const GemmProduct& member) { return member.steps(); });
  for (const std::uint32_t value :
       {u32(p.rank()), std::uint32_t{!p.start.empty()}, std::uint32_t{!p.bias.empty()}, kBand}) {
    list.one(value);
  }
  list.one(p.low_rank.a_scale);
  list.one(p.low_rank.scale);
  list.one(u32(p.split_rows > 0 ? p.split_rows : p.rows()));
  return list.take();
}

}  // namespace

std::uint32_t WgmmaTiles::stage_bytes(bool whole_boxes) const {
  const auto boxes = static_cast<std::uint32_t>(round_up(columns, kBoxRows));
  return kRowBytes * (kTileRows + (whole_boxes ? std::max(boxes, width()) : width()));
}

std::uint32_t WgmmaTiles::staged_bytes() const {
  return kTileRows * staged * std::uint32_t{sizeof(std::uint16_t)};
}

WgmmaTiles wgmma_tiles(const WgmmaSize& size) {
  WgmmaTiles best;
  best.cost = std::numeric_limits<std::uint32_t>::max();
  for (const std::uint32_t width : {64U, 128U, 192U, 224U, 256U}) {
    const bool fits = width + size.shrink <= kMostColumns;
    if (!fits || (size.shrink > kStepRanks && width % kBoxRows != 0)) continue;
    std::uint32_t across = 0;
    for (const std::uint32_t columns : size.columns) across += divide_up(columns, width);
    const std::uint32_t tiles = divide_up(size.rows, kTileRows) * across;
    // Columns that come in a box and are not multiplied cost half as much.
    const auto held = static_cast<std::uint32_t>(round_up(width, kBoxRows));
    const std::uint32_t idle = size.whole_boxes ? (held - width) / 2 : 0;
    const std::uint32_t cost = divide_up(tiles, size.units) *
                               (std::max(width, kLeastCost) + idle + size.shrink + kTileOverhead);
    if (cost <= best.cost) best = {.columns = width, .shrink = size.shrink, .cost = cost};
    if (width >= *std::ranges::max_element(size.columns)) break;
  }
  if (size.stages_y) best.staged = best.columns / kBoxRows * kBoxRows;
  best.stages = (kSharedBytes - best.staged_bytes()) / best.stage_bytes(size.whole_boxes);
  return best;
}

bool gemm_wgmma_makes_s(const Context& context, const GemmProduct& p) {
  if (p.backward || p.rank() > std::int64_t{kBoxRanks}) return false;
  const Members one(&p, 1);
  const double apart = tiles_of(context, one, 0).cost + kShrinkRow * static_cast<double>(p.rows()) +
                       kShrinkLaunch / static_cast<double>(p.steps());
  return tiles_of(context, one, shrink_of(p)).cost <= apart;
}

bool gemm_wgmma_can_join(const Context& context, std::span<const GemmProduct> members) {
  if (members.size() < 2 || members.size() > kMostMembers) return false;
  const GemmProduct& first = members.front();
  return std::ranges::all_of(members, [&](const GemmProduct& p) {
    const bool alike = p.y.type() == first.y.type() && p.rank() == first.rank() &&
                       p.bias.empty() == first.bias.empty() && p.alpha == 1 && is_aligned(p);
    const LowRankTerm &a = p.low_rank, &b = first.low_rank;
    const bool alike_terms =
        p.rank() == 0 || (a.s.type() == b.s.type() && a.scale == b.scale &&
                          a.a_scale == b.a_scale && a.a.empty() == b.a.empty());
    if (!alike || !alike_terms) return false;
    if (p.backward) return !p.makes_s();
    return p.start.empty() && (!p.makes_s() || gemm_wgmma_makes_s(context, p));
  });
}

void record_gemm_wgmma(Batch& batch, std::span<const GemmProduct> members) {
  Context& context = batch.context();
  const GemmProduct& p = members.front();
  const WgmmaTiles tiles = tiles_of(context, members, shrink_of(p));
  const std::vector<MappedMatrix> operands = operands_of(batch, members, tiles);
  const Tensor maps = prepare_tensor_maps(batch, operands, "gemm/tensor map");
  Cost cost;
  for (const GemmProduct& member : members) {
    cost = {cost.flops + member.cost().flops, cost.bytes + member.cost().bytes};
  }
  Launch launch{context.kernel(kGemmWgmma, "gemm_wgmma", defines_of(members, tiles)),
                groups_of(kItems, units_of(context)), cost,
                p.backward ? "gemm/backward" : "gemm/forward"};
  batch.record(std::move(launch), arguments_of(members, maps, operands));
}

}  // namespace clora
