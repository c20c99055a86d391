#include "ops/gemm/gemm_matrix.hpp"

#include <algorithm>
#include <vector>

#include "clora/ops/gemm/bf16_rows.hpp"
#include "ops/gemm/gemm_groups.hpp"
#include "ops/launch_grids.hpp"
#include "ops/tuned/costs.hpp"
#include "runtime/fail.hpp"
#include "runtime/integer_sizes.hpp"

namespace clora {
namespace {

using uint = std::uint32_t;  // OpenCL C's
#include "cl/gemm/gemm_matrix_problem.clh"

using Problems = std::span<const GemmProduct>;

// Rasterisation group: tile rows walked column by column.
constexpr std::uint32_t kGroupM = 8;
// Ranks that are multiplied at once.
constexpr std::uint32_t kStepRanks = 16;
// Maximum columns of a in a tile.
constexpr std::int64_t kMaxShrink = 64;
// Columns of y that are stored together if its rows are a multiple of them.
constexpr std::int64_t kAlignedColumns = 8;

// Local memory of a compute unit: the least of the GPUs with mma.sync, and Hopper's. NVIDIA's
// driver reports the limit of arguments, 48 KiB; arrays of kernels may be larger.
constexpr std::uint32_t kMmaUnitBytes = 100 << 10U;
constexpr std::uint32_t kHopperUnitBytes = 227 << 10U;
// Elements of y of a sub-group, of which each lane has an even part in registers: 128 of 255, and
// on Intel's, whose sub-groups have 16 lanes, 64 of 128.
constexpr std::uint32_t kMatrixSums = 64 * 64, kXmxSums = 32 * 32;

std::uint32_t shrink_of(const GemmProduct& p) {
  return p.has_shrink() ? round_up(u32(p.rank()), kStepRanks) : 0;
}

GemmMatrixSize size_of(Problems problems) {
  const GemmProduct& first = problems.front();
  GemmMatrixSize size{.rows = u32(first.rows()),
                      .shrink = shrink_of(first),
                      .may_split = problems.size() == 1 && !first.has_shrink()};
  for (std::size_t i = 0; i < problems.size(); ++i) {
    const GemmProduct& p = problems[i];
    if (i == 0 || !p.backward) size.columns.at(i) = u32(p.columns());
    size.k = (p.backward ? size.k : 0) + u32(p.k() + p.rank());
  }
  return size;
}

// x, w, s (or a, for a fused shrink) and u as the kernel reads them. x stands in for absent ones.
struct Operands {
  Bf16Rows x, w, s, u;
};

// t in bf16; `given` is the caller's bf16 copy, or empty.
Bf16Rows bf16_rows_of(Batch& batch, const Tensor& t, const Tensor& given) {
  return record_bf16_rows(batch, given.empty() ? t : given);
}

// A stack of matrices as one matrix of all their rows; other tensors as they are.
Tensor as_rows(const Tensor& t) {
  if (t.empty() || t.shape().rank() < 3) return t;
  return t.reshape({t.shape()[0] * t.shape()[1], t.shape()[2]});
}

Operands operands_of(Batch& batch, const GemmProduct& p, const Bf16Rows& x) {
  Operands of{x, record_bf16_rows(batch, p.w), x, x};
  if (p.rank() == 0) return of;
  const LowRankTerm& term = p.epilogue.low_rank;
  of.s =
      p.has_shrink() ? bf16_rows_of(batch, term.a, term.a_bf16) : record_bf16_rows(batch, term.s);
  of.u = bf16_rows_of(batch, as_rows(term.u), as_rows(term.u_bf16));
  return of;
}

std::vector<Operands> operands_of(Batch& batch, Problems problems) {
  std::vector<Operands> all;
  for (const GemmProduct& p : problems) {
    const bool shares_x = !all.empty() && !p.backward;
    all.push_back(operands_of(batch, p, shares_x ? all.front().x : record_bf16_rows(batch, p.x)));
  }
  return all;
}

Defines defines_of(MatrixUnitChoice unit, Problems problems, const GemmMatrixTiles& tiles) {
  const GemmProduct& p = problems.front();
  const GemmMatrixTile& tile = tiles.tile;
  Defines defines;
  define_matrix_unit(defines, unit);
  defines.set("TILE_ROWS", tile.rows).set("TILE_COLUMNS", tile.columns);
  defines.set("SUB_ROWS", tile.sub_rows).set("SUB_COLUMNS", tile.sub_columns);
  defines.set("STEPS", tile.steps).set("STAGES", tile.stages);
  if (problems.size() > 1) defines.set("PROBLEMS", problems.size());
  if (tiles.shrink > 0) defines.set("SHRINK", tiles.shrink);
  if (tiles.shrink == 0 && p.rank() > 0) defines.set("LOW_RANK");
  if (tiles.slices > 1) defines.set("SPLIT_K");
  if (p.backward) defines.set("TRANSPOSED");
  if (p.y.type() == DType::bf16) defines.set("Y_BF16");
  if (p.has_shrink() && p.epilogue.low_rank.s.type() == DType::bf16) defines.set("SAVED_BF16");
  if (p.columns() % kAlignedColumns == 0) defines.set("ALIGNED");
  if (!p.epilogue.residual.empty()) defines.set("ADDEND");
  if (!p.epilogue.bias.empty()) defines.set("BIAS");
  define_epilogue(defines, p);
  return defines;
}

GemmMatrixProblem problem_of(Problems problems, std::span<const Operands> operands,
                             const GemmMatrixTiles& tiles) {
  const GemmProduct& first = problems.front();
  GemmMatrixProblem problem{
      .M = u32(first.rows()),
      .R = u32(first.rank()),
      .C = {},
      .K = {},
      .x_stride = {},
      .w_stride = {},
      .s_stride = {},
      .u_stride = {},
      .split_rows = u32(first.split_rows > 0 ? first.split_rows : first.rows()),
      .group_m = kGroupM,
      .slices = tiles.slices,
      .shrink_scale = first.epilogue.low_rank.a_scale,
      .term_scale = first.epilogue.low_rank.scale,
      .scale = first.rank() == 0 ? first.epilogue.scale : 1,
      .rank_scale = first.epilogue.scale};
  const bool takes_s = first.rank() > 0 && !first.has_shrink();
  if (takes_s && first.epilogue.low_rank.scale == 0) problem.R = 0;
  if (takes_s && first.epilogue.low_rank.scale != 0) {
    problem.scale = first.epilogue.low_rank.scale;
    problem.rank_scale = first.epilogue.scale / problem.scale;
  }
  for (std::size_t i = 0; i < problems.size(); ++i) {
    const auto& [x, w, s, u] = operands[i];
    problem.C[i] = u32(problems[i].columns());
    problem.K[i] = u32(problems[i].k());
    problem.x_stride[i] = x.stride;
    problem.w_stride[i] = w.stride;
    problem.s_stride[i] = s.stride;
    problem.u_stride[i] = u.stride;
  }
  return problem;
}

// The kernel's arguments in order: those that differ between problems are repeated for each of
// them. For two problems, the first stands in for the third.
std::vector<Argument> arguments_of(Problems problems, std::span<const Operands> operands,
                                   const Tensor& parts, const GemmMatrixTiles& tiles) {
  std::vector<Argument> list;
  const auto each = [&](auto of) {
    const std::size_t count = problems.size() == 1 ? 1 : kMaxGemmGroup;
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t at = i < problems.size() ? i : 0;
      list.emplace_back(of(problems[at], operands[at]));
    }
  };
  const auto or_x = [](const Tensor& t, const Operands& of) { return or_else(t, of.x.data); };
  each([&](const GemmProduct& p, const Operands&) { return or_else(parts, p.y); });
  each([](const GemmProduct&, const Operands& of) { return of.x.data; });
  each([](const GemmProduct&, const Operands& of) { return of.w.data; });
  each([](const GemmProduct&, const Operands& of) { return of.s.data; });
  each([](const GemmProduct&, const Operands& of) { return of.u.data; });
  each([&](const GemmProduct& p, const Operands& of) {
    return or_x(p.has_shrink() ? p.epilogue.low_rank.s : Tensor(), of);
  });
  each([&](const GemmProduct& p, const Operands& of) { return or_x(p.epilogue.bias, of); });
  if (!problems.front().epilogue.column_scale.empty()) {
    each([](const GemmProduct& p, const Operands&) { return p.epilogue.column_scale; });
  }
  if (problems.front().has_row_groups()) {
    list.emplace_back(problems.front().low_rank().row_groups);
  }
  list.emplace_back(or_x(problems.front().epilogue.residual, operands.front()));
  list.emplace_back(by_value(problem_of(problems, operands, tiles)));
  return list;
}

void record_sum_of_slices(Batch& batch, const GemmProduct& p, const Tensor& parts,
                          const Defines& defines) {
  Launch launch{
      batch.context().kernel(kGemmMatrix, "gemm_matrix_sum_slices", defines),
      {},
      {static_cast<double>(parts.elements()), static_cast<double>(parts.bytes() + p.y.bytes())},
      p.backward ? "gemm/backward" : "gemm/forward"};
  const std::size_t group = reduction_group(batch.context().device());
  launch.grid = groups_of(group, divide_up(static_cast<std::size_t>(p.y.elements()), group));
  std::vector<Argument> arguments{p.y, parts, or_else(p.epilogue.residual, p.y),
                                  or_else(p.epilogue.bias, parts)};
  if (!p.epilogue.column_scale.empty()) arguments.emplace_back(p.epilogue.column_scale);
  arguments.insert(arguments.end(), {u32(p.rows()), u32(p.columns()), u32(parts.shape()[0])});
  batch.record(std::move(launch), std::move(arguments));
}

void record_in_tiles(Batch& batch, Problems problems, MatrixUnitChoice unit,
                     const GemmMatrixTiles& tiles) {
  const GemmProduct& p = problems.front();
  const Defines defines = defines_of(unit, problems, tiles);
  Cost cost;
  for (const GemmProduct& problem : problems) {
    cost = {cost.flops + problem.cost().flops, cost.bytes + problem.cost().bytes};
  }
  const std::vector<Operands> operands = operands_of(batch, problems);
  Tensor parts;
  if (tiles.slices > 1) {
    parts = batch.temporary({tiles.slices, p.rows(), p.columns()}, DType::f32, "gemm slices");
  }
  const std::size_t items = std::size_t{tiles.tile.sub_groups()} * matrix_unit_lanes(unit);
  Launch launch{batch.context().kernel(kGemmMatrix, "gemm_matrix", defines),
                groups_of(items, std::size_t{tiles.count} * tiles.slices), cost,
                p.backward ? "gemm/backward" : "gemm/forward"};
  batch.record(std::move(launch), arguments_of(problems, operands, parts, tiles));
  if (tiles.slices > 1) record_sum_of_slices(batch, p, parts, defines);
}

std::uint32_t unit_bytes(const Device& device, MatrixUnitChoice unit) {
  if (device.matrix_unit == MatrixUnit::wgmma) return kHopperUnitBytes;
  if (unit.unit == MatrixUnit::mma) return kMmaUnitBytes;
  return static_cast<std::uint32_t>(device.local_memory_bytes);
}

GemmMatrixLaunch launch_of(const GemmMatrixDevice& device, std::vector<GemmProduct> problems) {
  const GemmMatrixTiles tiles =
      choose_gemm_matrix_tiles(device.units, device.costs, size_of(problems));
  std::string options = defines_of(device.unit, problems, tiles).text();
  return {std::move(problems), {device.unit, tiles, std::move(options)}};
}

}  // namespace

GemmMatrixDevice gemm_matrix_device(const Context& context) {
  const MatrixUnitChoice unit = matrix_unit_of(context);
  return {unit,
          {.count = std::max(1U, context.device().compute_units),
           .local_bytes = unit_bytes(context.device(), unit),
           .most_sums = unit.unit == MatrixUnit::xmx ? kXmxSums : kMatrixSums},
          costs_of<GemmMatrixCosts>(context)};
}

std::vector<GemmMatrixLaunch> gemm_matrix_launches(const GemmMatrixDevice& device,
                                                   Problems problems) {
  const GemmProduct& first = problems.front();
  std::vector<GemmProduct> all(problems.begin(), problems.end());
  if (!first.has_shrink()) return {launch_of(device, std::move(all))};
  GemmMatrixLaunch shrink = launch_of(device, shrinks_of(problems, AdapterCopies::read));
  GemmMatrixLaunch apart = launch_of(device, without_shrinks(problems));
  if (!first.backward && first.rank() <= kMaxShrink) {
    GemmMatrixLaunch fused = launch_of(device, std::move(all));
    const double time =
        shrink.program.tiles.time + device.costs.shrink_launch + apart.program.tiles.time;
    if (fused.program.tiles.time <= time) return {std::move(fused)};
  }
  return {std::move(shrink), std::move(apart)};
}

GemmMatrixProgram gemm_matrix_program_like(const GemmMatrixProgram& program, Problems problems) {
  constexpr std::uint32_t kTestedSlices = 3;
  GemmMatrixTiles tiles = program.tiles;
  tiles.count = gemm_matrix_tile_count(tiles.tile, size_of(problems));
  tiles.slices = std::min(
      {tiles.slices, kTestedSlices, divide_up(u32(problems.front().k()), tiles.tile.steps)});
  return {program.unit, tiles, defines_of(program.unit, problems, tiles).text()};
}

void record_gemm_matrix(Batch& batch, Problems problems) {
  for (const auto& [launched, program] :
       gemm_matrix_launches(gemm_matrix_device(batch.context()), problems)) {
    record_in_tiles(batch, launched, program.unit, program.tiles);
  }
}

void record_gemm_matrix_by(Batch& batch, Problems problems, const GemmMatrixProgram& program) {
  const GemmMatrixProgram like = gemm_matrix_program_like(program, problems);
  require(like.options == program.options, "gemm: a self-test of{} would build{}", program.options,
          like.options);
  record_in_tiles(batch, problems, like.unit, like.tiles);
}

}  // namespace clora
