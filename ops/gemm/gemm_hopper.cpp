#include "ops/gemm/gemm_hopper.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <vector>

#include "ops/gemm/gemm_groups.hpp"
#include "ops/hopper/tensor_maps.hpp"
#include "ops/launch_grids.hpp"
#include "ops/tuned/costs.hpp"
#include "runtime/fail.hpp"
#include "runtime/integer_sizes.hpp"

namespace clora {
namespace {

constexpr std::size_t kMaxProblems = kMaxGemmGroup;
constexpr std::size_t kProblemMaps = 5;
constexpr std::uint32_t kBoxRows = kWgmmaBoxRows;
constexpr std::uint32_t kBoxSteps = 64;
constexpr std::size_t kItems = 384;
// Rasterisation group: tile rows walked column by column. Values from 4 to 32 differ by 2 to 4 %,
// without a clear trend.
constexpr std::uint32_t kGroupM = 16;
constexpr std::uint32_t kStepRanks = kWgmmaStepRanks, kBoxRanks = kWgmmaBoxRanks;
// Columns of y that are stored together if its rows are a multiple of them.
constexpr std::int64_t kAlignedColumns = 8;
// Counters by which the warp groups of a tile's slices determine which slice is last.
constexpr std::uint32_t kCountersOfTile = 2;

std::uint32_t units_of(const Context& context) {
  return std::max(1U, context.device().compute_units);
}

// Whether tiles compute s, from columns of a next to those of w.
bool shrinks_in_tiles(const GemmProduct& p) { return p.has_shrink() && !is_row_shrink(p); }

// Columns of a in a tile's accumulator; 0 if the shrink is not fused.
std::uint32_t shrink_of(const GemmProduct& p) {
  if (!shrinks_in_tiles(p)) return 0;
  return p.rank() <= kStepRanks ? kStepRanks : kBoxRanks;
}

// Whether rows of y are a multiple of 16 bytes in bf16.
bool is_aligned(const GemmProduct& p) { return p.columns() % kAlignedColumns == 0; }

using Problems = std::span<const GemmProduct>;

// Boxes of 64 K steps that are summed; for a gradient, of all problems.
std::uint32_t boxes_of(Problems problems) {
  std::uint32_t boxes = 0;
  for (const GemmProduct& p : problems) {
    boxes = (p.backward ? boxes : 0) + divide_up(u32(p.k()), kBoxSteps);
  }
  return boxes;
}

// Columns of each output; a backward sum has one output.
std::array<std::uint32_t, kMaxProblems> columns_of(Problems problems) {
  std::array<std::uint32_t, kMaxProblems> columns{u32(problems.front().columns())};
  for (std::size_t i = 1; i < problems.size() && !problems.front().backward; ++i) {
    columns.at(i) = u32(problems[i].columns());
  }
  return columns;
}

WgmmaTiles tiles_of(const WgmmaDevice& device, Problems problems, std::uint32_t shrink) {
  const GemmProduct& p = problems.front();
  return wgmma_tiles(device,
                     {.rows = u32(p.rows()),
                      .columns = columns_of(problems),
                      .shrink = shrink,
                      .full_boxes = p.backward || multiplied_ranks(p) > std::int64_t{kStepRanks},
                      .stages_y = p.y.type() == DType::bf16 && is_aligned(p),
                      .boxes = boxes_of(problems),
                      .awaits_s = is_row_shrink(p)});
}

// Steps of 16 ranks in the product s u, and in a box of u.
std::uint32_t rank_steps(const GemmProduct& p) {
  const std::int64_t ranks = multiplied_ranks(p);
  if (ranks == 0) return 0;
  return (ranks <= kStepRanks ? kStepRanks : kBoxRanks) / kStepRanks;
}

// t in bf16; `given` is the caller's bf16 copy, or empty.
Bf16Rows bf16_rows_of(Batch& batch, const Tensor& t, const Tensor& given) {
  return record_bf16_rows(batch, given.empty() ? t : given);
}

// s as a matrix that is copied, or a if tiles compute s. wide: of a row shrink.
MappedMatrix first_factor(Batch& batch, const GemmProduct& p, const WgmmaTiles& tiles,
                          const Tensor& wide) {
  const LowRankTerm& term = p.low_rank();
  if (is_row_shrink(p)) return {record_bf16_rows(batch, wide), tiles.rows};
  if (p.has_shrink()) return {bf16_rows_of(batch, term.a, term.a_bf16), tiles.shrink};
  return {record_bf16_rows(batch, term.s, term.scale), tiles.rows};
}

// x, w, s (or a) and u as the kernel reads them, and y as it is stored. x stands in for absent
// operands.
std::array<MappedMatrix, kProblemMaps> operands_of(Batch& batch, const GemmProduct& p,
                                                   const WgmmaTiles& tiles, const Bf16Rows& rows,
                                                   const Tensor& wide) {
  const MappedMatrix x{rows, tiles.rows};
  const std::uint32_t w_rows = p.backward ? kBoxRows : tiles.columns;
  std::array<MappedMatrix, kProblemMaps> of{
      x, {record_bf16_rows(batch, p.w, p.epilogue.scale), w_rows}, x, x, x};
  if (tiles.staged > 0) of[4] = {record_bf16_rows(batch, p.y), kBoxRows};
  if (p.rank() == 0) return of;
  of[2] = first_factor(batch, p, tiles, wide);
  const Tensor u = multiplied_u(p, p.low_rank().u), u_bf16 = multiplied_u(p, p.low_rank().u_bf16);
  of[3] = {bf16_rows_of(batch, u, u_bf16), rank_steps(p) * kStepRanks};
  return of;
}

// The operands of all problems, in order.
std::vector<MappedMatrix> operands_of(Batch& batch, Problems problems, const WgmmaTiles& tiles,
                                      std::span<const Tensor> wide) {
  std::vector<MappedMatrix> all;
  Bf16Rows x;
  for (std::size_t i = 0; i < problems.size(); ++i) {
    const GemmProduct& p = problems[i];
    if (all.empty() || p.backward) x = record_bf16_rows(batch, p.x);
    const Tensor of_p = wide.empty() ? Tensor() : wide[i];
    std::ranges::copy(operands_of(batch, p, tiles, x, of_p), std::back_inserter(all));
  }
  return all;
}

Defines defines_of(Problems problems, const WgmmaTiles& tiles) {
  const GemmProduct& p = problems.front();
  Defines defines;
  if (tiles.rows < kWgmmaTileRows) defines.set("TILE_ROWS", tiles.rows);
  defines.set("COLUMNS", tiles.columns).set("WIDTH", tiles.width()).set("STAGES", tiles.stages);
  defines.set("RANK_STEPS", rank_steps(p));
  if (problems.size() > 1) defines.set("PROBLEMS", problems.size());
  if (tiles.shrink > 0) defines.set("SHRINK", tiles.shrink);
  if (tiles.staged > 0) defines.set("STAGED", tiles.staged);
  if (tiles.slices > 1) defines.set("SPLIT_K");
  if (is_row_shrink(p)) defines.set("ROW_SHRINK");
  if (p.backward) defines.set("TRANSPOSED");
  if (p.y.type() == DType::bf16) defines.set("Y_BF16");
  if (p.has_shrink() && p.epilogue.low_rank.s.type() == DType::bf16) defines.set("SAVED_BF16");
  if (is_aligned(p)) defines.set("ALIGNED");
  if (!p.epilogue.residual.empty()) defines.set("ADDEND");
  if (!p.epilogue.bias.empty()) defines.set("BIAS");
  if (!p.epilogue.column_scale.empty()) defines.set("COLUMN_SCALE");
  return defines;
}

// The partial sums of slices; empty if tiles have one slice.
Tensor parts_of(Batch& batch, const WgmmaTiles& tiles) {
  if (tiles.slices == 1) return {};
  return batch.temporary({tiles.count, tiles.slices, tiles.rows, tiles.width()}, DType::f32,
                         "gemm parts");
}

// The table in the order that the kernel expects.
TensorTable table_of(Batch& batch, Problems problems, const WgmmaTiles& tiles) {
  const GemmProduct& first = problems.front();
  const std::vector<Tensor> wide = wide_s(batch, problems);
  TensorTable table{.matrices = operands_of(batch, problems, tiles, wide),
                    .tensors = {first.epilogue.residual, parts_of(batch, tiles)},
                    .counters = tiles.slices > 1 ? kCountersOfTile * tiles.count : 0};
  const auto add = [&](std::initializer_list<Tensor> more) {
    table.tensors.insert(table.tensors.end(), more);
  };
  if (!wide.empty()) {
    add({first.x, first.low_rank().row_groups,
         row_shrink_parts(batch, problems, tiles.row_shrink)});
    table.counters += kRowShrinkCounters + row_shrink_blocks(problems, tiles.row_shrink);
  }
  for (std::size_t i = 0; i < problems.size(); ++i) {
    const GemmProduct& p = problems[i];
    add({p.y, p.epilogue.bias, p.has_shrink() ? p.low_rank().s : Tensor()});
    if (!p.epilogue.column_scale.empty()) add({p.epilogue.column_scale});
    if (!wide.empty()) add({p.low_rank().a_bf16, wide[i]});
  }
  return table;
}

// The kernel's arguments in order: sizes that differ between problems are repeated for each of
// them; for two problems the third one has zero columns and K.
std::vector<Argument> arguments_of(Problems problems, const Tensor& table,
                                   const WgmmaTiles& tiles) {
  const GemmProduct& p = problems.front();
  std::vector<Argument> list{table, u32(p.rows())};
  const auto each = [&](auto of) {
    const std::size_t count = problems.size() == 1 ? 1 : kMaxProblems;
    for (std::size_t i = 0; i < count; ++i) {
      list.emplace_back(i < problems.size() ? u32(of(problems[i])) : 0U);
    }
  };
  each([](const GemmProduct& problem) { return problem.columns(); });
  each([](const GemmProduct& problem) { return problem.k(); });
  list.insert(list.end(), {u32(multiplied_ranks(p)), kGroupM, p.epilogue.low_rank.a_scale,
                           p.epilogue.low_rank.scale,
                           u32(p.split_rows > 0 ? p.split_rows : p.rows()), tiles.slices});
  if (is_row_shrink(p)) {
    list.insert(list.end(),
                {u32(p.low_rank().u.shape()[0]), tiles.row_shrink.groups, tiles.row_shrink.slices,
                 row_shrink_blocks(problems, tiles.row_shrink)});
  }
  return list;
}

// The tiling, and the shrinks of rows by the units that it leaves idle, or that it is to leave.
WgmmaTiles tiles_beside_shrinks(WgmmaDevice device, Problems problems) {
  const std::uint32_t units = device.units, shrink = shrink_of(problems.front());
  WgmmaTiles tiles = tiles_of(device, problems, shrink);
  RowShrinkPlan plan = row_shrink_plan(problems);
  if (plan.groups == 0) return tiles;
  const std::uint32_t least = least_groups(plan, units);
  if (idle_units(tiles, units) < least) {
    device.units -= least;
    tiles = tiles_of(device, problems, shrink);
  }
  plan.groups = std::min(plan.groups, idle_units(tiles, units));
  tiles.row_shrink = plan;
  return tiles;
}

void record_in_tiles(Batch& batch, Problems problems, const WgmmaTiles& tiles) {
  Context& context = batch.context();
  const GemmProduct& p = problems.front();
  const TensorTable table = table_of(batch, problems, tiles);
  Cost cost;
  for (const GemmProduct& problem : problems) {
    cost = {cost.flops + problem.cost().flops, cost.bytes + problem.cost().bytes};
  }
  Launch launch{context.kernel(kGemmWgmma, "gemm_wgmma", defines_of(problems, tiles)),
                groups_of(kItems, units_of(context)), cost,
                p.backward ? "gemm/backward" : "gemm/forward", table.uses()};
  const Tensor prepared = prepare_tensor_table(batch, table, "gemm/table");
  batch.record(std::move(launch), arguments_of(problems, prepared, tiles));
}

}  // namespace

WgmmaDevice wgmma_device(const Context& context) {
  return {units_of(context), costs_of<GemmWgmmaCosts>(context)};
}

bool gemm_wgmma_fuses_shrink(const Context& context, const GemmProduct& p) {
  if (is_row_shrink(p)) return can_shrink_rows(p);
  if (p.backward || p.rank() > std::int64_t{kBoxRanks}) return false;
  const Problems one(&p, 1);
  const WgmmaDevice device = wgmma_device(context);
  const double apart = tiles_of(device, one, 0).cost + device.costs.shrink_launch +
                       device.costs.shrink_row * static_cast<double>(p.rows()) * boxes_of(one);
  return tiles_of(device, one, shrink_of(p)).cost <= apart;
}

bool gemm_wgmma_can_group(const Context& context, std::span<const GemmProduct> problems) {
  return can_be_grouped(problems) && std::ranges::all_of(problems, [&](const GemmProduct& p) {
           return !p.has_shrink() || gemm_wgmma_fuses_shrink(context, p);
         });
}

WgmmaProgram gemm_wgmma_program(const WgmmaDevice& device, std::span<const GemmProduct> problems) {
  const WgmmaTiles tiles = tiles_beside_shrinks(device, problems);
  return {tiles, defines_of(problems, tiles).text()};
}

void record_gemm_wgmma(Batch& batch, std::span<const GemmProduct> problems) {
  record_in_tiles(batch, problems,
                  gemm_wgmma_program(wgmma_device(batch.context()), problems).tiles);
}

WgmmaProgram gemm_wgmma_program_like(const WgmmaProgram& program,
                                     std::span<const GemmProduct> problems) {
  constexpr std::uint32_t kTestedSlices = 3;
  WgmmaTiles tiles = program.tiles;
  tiles.count = wgmma_tile_count(tiles, u32(problems.front().rows()), columns_of(problems));
  tiles.slices = std::min({tiles.slices, kTestedSlices, boxes_of(problems)});
  if (tiles.row_shrink.groups > 0) tiles.row_shrink.slices = kTestedSlices;
  return {tiles, defines_of(problems, tiles).text()};
}

void record_gemm_wgmma_by(Batch& batch, std::span<const GemmProduct> problems,
                          const WgmmaProgram& program) {
  const WgmmaProgram like = gemm_wgmma_program_like(program, problems);
  require(like.options == program.options, "gemm: a self-test of{} would build{}", program.options,
          like.options);
  record_in_tiles(batch, problems, like.tiles);
}

}  // namespace clora
