#include "ops/gemm/gemm_kernels.hpp"

#include "clora/ops/quant/quant.hpp"
#include "ops/dispatch/cpu_vector_defines.hpp"
#include "ops/dispatch/integer_products.hpp"
#include "ops/launch_grids.hpp"
#include "ops/tuned/costs.hpp"
#include "runtime/integer_sizes.hpp"

namespace clora {
namespace {

// cl/gemm/cpu/gemm_skinny_cpu.cl processes as many rows of w at once as a packed panel has.
constexpr auto kRowsAtOnce = static_cast<std::uint32_t>(kPackedRows);
// cl/gemm/cpu/shrink_dots_cpu.clh: 16 pairs.
constexpr std::int64_t kStepsOfDots = 32;

Launch launch_of(const GemmProduct& p) {
  return {{}, {}, p.cost(), p.backward ? "gemm/backward" : "gemm/forward"};
}

std::uint32_t units_of(const Context& context) {
  return std::max(1U, context.device().compute_units);
}

// The distribution of the packed panels of w over groups.
RowShare share_panels(const Context& context, const GemmProduct& p) {
  return share_rows(u32(p.columns()) / kRowsAtOnce, context.device());
}

// Cost of the fused shrink, in panels: rows are multiplied with a of R rows as they are staged.
double shrink_panels(const GemmProduct& p) {
  return p.has_shrink() ? static_cast<double>(p.rank()) / GemmTiles::kColumns : 0;
}

// Groups of columns each compute their own s: returns whether that is as fast as a launch before
// the product.
bool fuses_shrink_cheaply(const Context& context, const GemmProduct& p, const GemmShares& shares,
                          std::uint32_t rows_per_group) {
  const GemmCpuCosts& costs = costs_of<GemmCpuCosts>(context);
  const std::uint32_t units = units_of(context);
  const std::uint32_t turns = divide_up(shares.column_groups * shares.row_groups, units);
  const auto flops_a_row = 2.0 * static_cast<double>(p.k() * p.rank());
  const double inside = flops_a_row * turns * rows_per_group;
  return inside <= costs.launch_flops + (p.rank() <= GemmTiles::kNarrowColumns ? costs.narrow : 1) *
                                            flops_a_row * static_cast<double>(p.rows()) / units;
}

// The plan of cl/gemm/cpu/gemm_cpu.cl or cl/gemm/cpu/gemm_bf16_cpu.cl for one product.
struct TilesPlan {
  GemmTiles tiles;
  GemmShares shares;
};

TilesPlan plan_tiles(const Context& context, const GemmProduct& p, bool bf16) {
  const GemmTiles tiles = bf16 ? gemm_bf16_tiles(context.device(), context.capabilities())
                               : gemm_tiles(context.device());
  const GemmShareCosts costs = tiles_costs(costs_of<GemmCpuCosts>(context), bf16, shrink_panels(p));
  return {tiles, share_gemm(p.size(), tiles, costs, units_of(context))};
}

// The plan of cl/gemm/cpu/gemm_packed_cpu.cl for one product.
struct PackedPlan {
  GemmPackedTiles packed;
  GemmShares shares;
  std::uint32_t rows_per_group = 0;
};

PackedPlan plan_packed(const Context& context, const GemmProduct& p) {
  const bool bf16 = p.w.type() == DType::bf16;
  const GemmPackedTiles packed =
      gemm_packed_tiles(context.device(), context.capabilities(), bf16).value();
  const GemmSize size{u32(p.rows()), u32(p.columns()), u32(p.k())};
  const GemmShareCosts costs = packed_costs(costs_of<GemmCpuCosts>(context), shrink_panels(p));
  const GemmShares shares = share_gemm(size, packed.as_tiles(size), costs, units_of(context));
  return {packed, shares, std::min(size.rows, shares.tiles_per_group * packed.row_step())};
}

// Scratch for the s of every group of columns except the first, which writes s itself.
Tensor copies_of_s(Batch& batch, const GemmProduct& p, std::uint32_t column_groups) {
  if (!p.has_shrink() || column_groups == 1) return p.y;
  return batch.temporary({column_groups - 1, p.rows(), p.rank()}, DType::f32, "s copies");
}

constexpr std::size_t kA = 7;  // the place of a in gemm_tensors()

struct SkinnyKernel {
  std::string_view file;
  std::string_view function;
};
// Records a skinny kernel with the arguments of gemm_arguments().
void record_skinny(Batch& batch, const GemmProduct& p, SkinnyKernel kernel, std::uint32_t groups,
                   std::vector<Argument> arguments) {
  Defines defines;
  set_weight_type(defines, p.w);
  defines.set("ROWS_AT_ONCE", kRowsAtOnce);
  if (kernel.file == kGemmSkinnyInt8) {
    define_integer_dots(defines, integer_products(batch.context()));
  }
  Launch launch = launch_of(p);
  launch.kernel = batch.context().kernel(kernel.file, kernel.function, defines);
  launch.grid = single_item_groups(groups);
  batch.record(std::move(launch), std::move(arguments));
}

}  // namespace

// Kernels that multiply pairs pad an odd k.
GemmSize GemmProduct::size() const {
  return {u32(rows()), u32(columns()), u32(k() + k() % 2 + rank())};
}

GemmProblem GemmProduct::problem() const {
  return {.M = u32(rows()),
          .N = u32(columns()),
          .K = u32(k()),
          .R = u32(rank()),
          .alpha = epilogue.scale,
          .scale = low_rank().scale,
          .backward = backward,
          .has_addend = !epilogue.residual.empty(),
          .has_bias = !epilogue.bias.empty(),
          .fuse_shrink = has_shrink(),
          .a_scale = low_rank().a_scale,
          .has_column_scale = !epilogue.column_scale.empty(),
          .has_row_groups = has_row_groups()};
}

Cost GemmProduct::cost() const {
  const std::int64_t widths = columns() + (has_shrink() ? k() : 0);
  Cost cost = gemm_cost(rows(), w);
  cost.flops += 2.0 * static_cast<double>(rows() * rank() * widths);
  cost.bytes = static_cast<double>(x.bytes() + y.bytes() + w.bytes());
  if (!epilogue.residual.empty()) cost.bytes += static_cast<double>(epilogue.residual.bytes());
  return cost;
}

std::array<Tensor, 10> gemm_tensors(const GemmProduct& p) {
  return {p.y,
          p.x,
          p.w,
          or_else(p.epilogue.residual, p.x),
          or_else(p.epilogue.bias, p.x),
          or_else(p.epilogue.low_rank.s, p.x),
          or_else(p.epilogue.low_rank.u, p.x),
          or_else(p.epilogue.low_rank.a, p.x),
          or_else(p.epilogue.column_scale, p.x),
          or_else(p.epilogue.low_rank.row_groups, p.x)};
}

std::vector<Argument> gemm_arguments(const GemmProduct& p, GemmShrink shrink,
                                     std::initializer_list<Argument> more) {
  const auto tensors = gemm_tensors(p);
  std::vector<Argument> arguments(tensors.begin(), tensors.end());
  if (shrink == GemmShrink::never_fused) arguments.erase(arguments.begin() + kA);
  arguments.insert(arguments.end(), more);
  return arguments;
}

std::vector<Argument> gemm_arguments_of_options(const GemmProduct& p, GemmShrink shrink,
                                                std::initializer_list<Argument> more) {
  std::vector<Argument> arguments = gemm_arguments(p, shrink, {});
  if (!p.has_row_groups()) arguments.pop_back();
  if (p.epilogue.column_scale.empty()) {
    arguments.erase(arguments.end() - (p.has_row_groups() ? 2 : 1));
  }
  arguments.insert(arguments.end(), more);
  return arguments;
}

void define_epilogue(Defines& defines, const GemmProduct& p) {
  if (!p.epilogue.column_scale.empty()) defines.set("COLUMN_SCALE");
  if (p.has_row_groups()) defines.set("ROW_GROUPS");
}

std::size_t int8_row_bytes(std::int64_t k) { return u32(k) * std::size_t{9} / 4; }

bool gemm_bf16_tiles_fuse_shrink(const Context& context, const GemmProduct& p) {
  if (p.k() % kStepsOfDots != 0) return false;
  const auto [tiles, shares] = plan_tiles(context, p, true);
  return fuses_shrink_cheaply(context, p, shares,
                              std::min(u32(p.rows()), shares.tiles_per_group * tiles.rows));
}

void record_gemm_tiles(Batch& batch, const GemmProduct& p, bool bf16) {
  Context& context = batch.context();
  const auto [tiles, shares] = plan_tiles(context, p, bf16);
  Defines defines;
  set_weight_type(defines, p.w);
  tiles.define(defines);
  if (!bf16) define_cpu_vectors(defines, context.device());
  if (bf16 && context.capabilities().amx) defines.set("AMX");
  Launch launch = launch_of(p);
  launch.kernel = context.kernel(bf16 ? kGemmBf16Tiles : kGemmTiles, "gemm_tiles", defines);
  launch.grid = single_item_groups(shares.column_groups, shares.row_groups);
  const ValueBytes problem = by_value(p.problem());
  const ValueBytes share = by_value(GemmTilesShare{.panels_per_group = shares.panels_per_group,
                                                   .tiles_per_group = shares.tiles_per_group,
                                                   .panels_at_once = shares.panels_at_once,
                                                   .block_steps = shares.block_steps,
                                                   .always_stage = rows_share_cache_sets(p.k())});
  const LocalMemory scratch{tiles.scratch_bytes()};
  batch.record(
      std::move(launch),
      bf16 ? gemm_arguments(p, GemmShrink::may_be_fused,
                            {copies_of_s(batch, p, shares.column_groups), problem, share, scratch})
           : gemm_arguments(p, GemmShrink::never_fused, {problem, share, scratch}));
}

bool gemm_packed_fuses_shrink(const Context& context, const GemmProduct& p) {
  if (context.capabilities().amx || p.rank() > GemmPackedTiles::kRankSteps) return false;
  const PackedPlan plan = plan_packed(context, p);
  return fuses_shrink_cheaply(context, p, plan.shares, plan.rows_per_group);
}

void record_gemm_packed(Batch& batch, const GemmProduct& p) {
  Context& context = batch.context();
  const auto [packed, shares, rows_per_group] = plan_packed(context, p);
  Defines defines;
  packed.define(defines);
  if (p.w.type() == DType::f32) define_cpu_vectors(defines, context.device());
  Launch launch = launch_of(p);
  launch.kernel = context.kernel(kGemmPacked, "gemm_packed", defines);
  launch.grid = single_item_groups(shares.column_groups, shares.row_groups);
  const GemmPackedShare share{.panels_per_group = shares.panels_per_group,
                              .rows_per_group = rows_per_group,
                              .block_steps = shares.block_steps,
                              .chunk_rows = packed.chunk_rows};
  batch.record(std::move(launch), gemm_arguments(p, GemmShrink::may_be_fused,
                                                 {by_value(p.problem()), by_value(share),
                                                  LocalMemory{packed.scratch_bytes()}}));
}

void record_gemm_skinny(Batch& batch, const GemmProduct& p) {
  const RowShare share =
      share_rows(divide_up(u32(p.columns()), kRowsAtOnce), batch.context().device());
  record_skinny(batch, p, {kGemmSkinny, "gemm_skinny"}, share.groups,
                gemm_arguments(p, GemmShrink::never_fused,
                               {by_value(p.problem()), share.rows_per_group * kRowsAtOnce}));
}

void record_gemm_skinny_packed(Batch& batch, const GemmProduct& p) {
  const RowShare share = share_panels(batch.context(), p);
  record_skinny(
      batch, p, {kGemmSkinnyPacked, "gemm_skinny_packed"}, share.groups,
      gemm_arguments(p, GemmShrink::never_fused, {by_value(p.problem()), share.rows_per_group}));
}

void record_gemm_skinny_int8(Batch& batch, const GemmProduct& p) {
  const Context& context = batch.context();
  const RowShare share = share_panels(context, p);
  const std::size_t fit = context.device().local_memory_bytes / int8_row_bytes(p.k());
  const std::uint32_t held = std::min(u32(p.rows()), static_cast<std::uint32_t>(fit));
  record_skinny(batch, p, {kGemmSkinnyInt8, "gemm_skinny_int8"}, share.groups,
                gemm_arguments(p, GemmShrink::never_fused,
                               {by_value(p.problem()), share.rows_per_group, held,
                                LocalMemory{held * int8_row_bytes(p.k())}}));
}

}  // namespace clora
