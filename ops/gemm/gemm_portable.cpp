#include "ops/gemm/gemm_portable.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <vector>

#include "clora/ops/quant/quant.hpp"
#include "ops/gemm/gemm_groups.hpp"
#include "ops/launch_grids.hpp"
#include "ops/tuned/tuned.hpp"
#include "runtime/integer_sizes.hpp"

namespace clora {
namespace {

using Problems = GemmPortableProblems;

constexpr std::uint32_t kFour = 4;
// The first two are for NVIDIA's compute units, which have local memory for several groups with 16
// steps, and registers for items with 128 sums. The next two are for other GPUs.
constexpr std::array<GemmTile, 7> kTiles{GemmTile{128, 128, 16, 8, 16}, GemmTile{64, 64, 16, 8, 8},
                                         GemmTile{128, 128, 8, 8, 8},   GemmTile{64, 64, 8, 8, 8},
                                         GemmTile{64, 16, 16, 4, 4},    GemmTile{32, 64, 16, 4, 8},
                                         GemmTile{32, 32, 8, 4, 4}};
constexpr std::size_t kNvidiaTiles = 2;
constexpr std::size_t kTilesForOtherGpus = 2;

// Registers of a compute unit of a GPU, and of an item: for sums, operands and addresses.
constexpr std::uint32_t kUnitRegisters = 65536;
constexpr std::uint32_t kMaxItemRegisters = 255;
constexpr std::uint32_t kOtherRegisters = 40;
// Work-items of a compute unit that hide the latency of its arithmetic and local memory.
constexpr double kBusyItems = 224;
// A float read from local memory takes an item about as long as this many fma.
constexpr double kLocalReadFlops = 1.25;
// A group's start, first fetch and epilogue, in steps of K.
constexpr double kGroupSteps = 32;
// Writing and adding an element of a slice takes a unit as long as this many fma, a further launch
// as long as this many.
constexpr double kSliceFlops = 16;
constexpr double kLaunchFlops = 3e5;
constexpr std::uint32_t kMaxSlices = 16;
constexpr std::uint32_t kMinSliceSteps = 64;

// Groups that a compute unit runs at the same time, by their registers.
std::uint32_t groups_of_unit(const GemmTile& tile) {
  const std::uint32_t registers =
      std::min(kMaxItemRegisters, kOtherRegisters + 2 * tile.item_rows * tile.item_columns);
  return std::max(1U, kUnitRegisters / (registers * tile.items()));
}

std::uint32_t units_of(const Device& device) { return std::max(1U, device.compute_units); }

// The columns and the steps of K of each problem of a launch, zeros for absent ones. A sum has one
// output.
struct Sizes {
  std::uint32_t rows = 0;
  std::array<std::uint32_t, kMaxGemmGroup> columns{}, k{};
  bool is_sum = false;

  std::uint32_t tiles(const GemmTile& tile) const {
    std::uint32_t across = 0;
    for (const std::uint32_t each : columns) across += divide_up(each, tile.columns);
    return divide_up(rows, tile.rows) * across;
  }
  std::uint32_t all_columns() const { return std::accumulate(columns.begin(), columns.end(), 0U); }
  // The steps of a tile: of a sum, those of all problems.
  std::uint32_t steps() const {
    return is_sum ? std::accumulate(k.begin(), k.end(), 0U) : std::ranges::max(k);
  }
  bool support(const GemmTile& tile) const {
    return !is_sum ||
           std::ranges::all_of(k, [&](std::uint32_t each) { return each % tile.steps == 0; });
  }
};

Sizes sizes_of(Problems problems) {
  Sizes sizes{.rows = u32(problems.front().rows()),
              .is_sum = problems.size() > 1 && problems.front().backward};
  for (std::size_t i = 0; i < problems.size(); ++i) {
    if (i == 0 || !sizes.is_sum) sizes.columns.at(i) = u32(problems[i].columns());
    sizes.k.at(i) = u32(problems[i].k());
  }
  return sizes;
}

// The time of `groups` groups of `steps` steps each, in fma of an item at full speed. They run in
// rounds of as many as fit; the last round takes as long as the unit with the most groups.
double time_of_groups(const Device& device, const GemmTile& tile, std::uint32_t groups,
                      std::uint32_t steps) {
  const std::uint32_t of_round = units_of(device) * groups_of_unit(tile);
  const double last = divide_up(groups % of_round, units_of(device));
  const double busy_units = last * tile.items() / kBusyItems;
  const double rounds = groups / of_round * groups_of_unit(tile) * tile.items() / kBusyItems +
                        (last > 0 ? std::max(1.0, busy_units) : 0);
  const double reads = kLocalReadFlops * (tile.item_rows + tile.item_columns);
  return rounds * (tile.item_rows * tile.item_columns + reads) * (steps + kGroupSteps);
}

double estimated_time(const Device& device, const GemmPortablePlan& plan, const Sizes& sizes) {
  const std::uint32_t sliced = sizes.tiles(plan.tile) - plan.whole_tiles;
  const double whole = time_of_groups(device, plan.tile, plan.whole_tiles, sizes.steps());
  if (sliced == 0) return whole;
  const double elements = (plan.slices + 1.0) * sliced * plan.tile.rows * plan.tile.columns;
  return whole + time_of_groups(device, plan.tile, sliced * plan.slices, plan.slice_steps) +
         (kSliceFlops * elements / units_of(device) + kLaunchFlops) / kBusyItems;
}

GemmPortablePlan with_slices(const GemmTile& tile, std::uint32_t whole_tiles, std::uint32_t slices,
                             const Sizes& sizes) {
  const std::uint32_t steps = round_up(divide_up(sizes.steps(), slices), tile.steps);
  return {tile, whole_tiles, divide_up(sizes.steps(), steps), steps};
}

// The plans among which an op chooses for a tiling: all tiles whole, or those after the last
// complete rounds, and perhaps one round more, in slices.
std::vector<GemmPortablePlan> plans_of(const Device& device, const GemmTile& tile,
                                       const Sizes& sizes) {
  const std::uint32_t tiles = sizes.tiles(tile);
  const std::uint32_t of_round = units_of(device) * groups_of_unit(tile);
  std::vector<GemmPortablePlan> plans{with_slices(tile, tiles, 1, sizes)};
  const std::uint32_t in_rounds = tiles / of_round * of_round;
  for (std::uint32_t slices = 2; slices <= kMaxSlices; ++slices) {
    if (sizes.steps() < slices * kMinSliceSteps) break;
    if (in_rounds < tiles) plans.push_back(with_slices(tile, in_rounds, slices, sizes));
    if (in_rounds > 0) plans.push_back(with_slices(tile, in_rounds - of_round, slices, sizes));
  }
  return plans;
}

GemmPortablePlan best_plan(const Device& device, std::span<const GemmTile> tiles,
                           const Sizes& sizes) {
  GemmPortablePlan best;
  double least = std::numeric_limits<double>::infinity();
  for (const GemmTile& tile : tiles) {
    if (!tile.fits(device) || !sizes.support(tile)) continue;
    for (const GemmPortablePlan& plan : plans_of(device, tile, sizes)) {
      const double time = estimated_time(device, plan, sizes);
      if (time >= least) continue;
      least = time;
      best = plan;
    }
  }
  return best;
}

std::vector<GemmTile> tiles_for(const Device& device) {
  std::vector<GemmTile> tiles(kTiles.begin(), kTiles.end());
  // A CPU keeps the sums of all items of a group in memory: the fewer, the better.
  if (device.kind == DeviceKind::cpu) return {tiles.back()};
  const auto others = tiles.begin() + kNvidiaTiles;
  if (has_nvidia_driver(device)) {
    tiles.erase(others, others + kTilesForOtherGpus);
  } else {
    tiles.erase(tiles.begin(), others);
  }
  return tiles;
}

bool starts_aligned(const Tensor& t) {
  return t.empty() || t.offset_bytes() % bytes_of(t.type(), kFour) == 0;
}

// Whether rows of `length` elements of these tensors are aligned to four elements. Blocks of
// quantised and packed weights need no alignment.
bool has_rows_of_fours(std::int64_t length, std::span<const Tensor> tensors) {
  return length % kFour == 0 && std::ranges::all_of(tensors, [](const Tensor& t) {
           return is_quantised(t.type()) || t.layout() == Layout::packed || starts_aligned(t);
         });
}

bool has_k_of_fours(const GemmProduct& p) {
  return has_rows_of_fours(p.k(), std::array{p.x, p.backward ? Tensor() : p.w});
}
bool has_n_of_fours(const GemmProduct& p) {
  return has_rows_of_fours(
      p.columns(), std::array{p.y, p.epilogue.residual, p.epilogue.bias, p.epilogue.column_scale,
                              p.backward ? p.w : Tensor()});
}

Defines types_of(const GemmProduct& p) {
  Defines defines;
  set_weight_type(defines, p.w);
  defines.set("X_TYPE", name_of(p.x.type())).set("Y_TYPE", name_of(p.y.type()));
  defines.set("BACKWARD", p.backward ? 1 : 0);
  return defines;
}

// For the vectors of four that the kernel reads and writes in one access.
void set_alignment(Defines& defines, Problems problems) {
  if (std::ranges::all_of(problems, has_k_of_fours)) defines.set("K_OF_FOURS");
  if (std::ranges::all_of(problems, has_n_of_fours)) defines.set("N_OF_FOURS");
}

Defines defines_of(Problems problems, const GemmTile& tile, const Device& device) {
  Defines defines = types_of(problems.front());
  if (problems.size() > 1) defines.set("PROBLEMS", problems.size());
  set_alignment(defines, problems);
  defines.set("TILE_ROWS", tile.rows).set("TILE_COLUMNS", tile.columns).set("STEPS", tile.steps);
  defines.set("ITEM_ROWS", tile.item_rows).set("ITEM_COLUMNS", tile.item_columns);
  define_epilogue(defines, problems.front());
  set_unrolling(defines, device, tile.steps);
  return defines;
}

Launch launch_of(Context& context, const GemmProduct& p, std::string_view function,
                 const Defines& defines) {
  Launch launch{{}, {}, {}, p.backward ? "gemm/backward" : "gemm/forward"};
  launch.kernel = context.kernel("gemm.cl", function, defines);
  return launch;
}

// Single numbers, which clc sets and reads by their names.
std::vector<Argument> arguments_of(Problems problems, const Tensor& parts,
                                   const GemmPortablePlan& plan) {
  const GemmProduct& first = problems.front();
  const GemmProblem g = first.problem();
  const Sizes sizes = sizes_of(problems);
  std::vector<Argument> list;
  append_each(list, problems, [](const GemmProduct& p) { return p.y; });
  append_each(list, problems, [](const GemmProduct& p) { return p.x; });
  append_each(list, problems, [](const GemmProduct& p) { return p.w; });
  list.emplace_back(or_else(first.epilogue.residual, first.x));
  append_each(list, problems, [](const GemmProduct& p) { return or_else(p.epilogue.bias, p.x); });
  append_each(list, problems, [](const GemmProduct& p) { return or_else(p.low_rank().s, p.x); });
  append_each(list, problems, [](const GemmProduct& p) { return or_else(p.low_rank().u, p.x); });
  if (!first.epilogue.column_scale.empty()) list.emplace_back(first.epilogue.column_scale);
  if (first.has_row_groups()) list.emplace_back(first.low_rank().row_groups);
  list.insert(list.end(), {parts, g.M});
  append_each(list, problems, [](const GemmProduct& p) { return u32(p.columns()); });
  append_each(list, problems, [](const GemmProduct& p) { return u32(p.k()); });
  list.insert(list.end(), {g.R, g.alpha, g.scale, g.has_addend, g.has_bias, plan.whole_tiles,
                           sizes.tiles(plan.tile) - plan.whole_tiles, plan.slice_steps});
  return list;
}

void record_sum_of_slices(Batch& batch, Problems problems, const Tensor& parts,
                          const GemmPortablePlan& plan, const Defines& defines) {
  const GemmProduct& p = problems.front();
  const GemmProblem g = p.problem();
  const GemmTile& tile = plan.tile;
  const Sizes sizes = sizes_of(problems);
  const std::uint32_t sliced = sizes.tiles(tile) - plan.whole_tiles;
  Launch launch = launch_of(batch.context(), p, "gemm_add_slices", defines);
  launch.grid = {{tile.rows * std::size_t{tile.columns} / kFour, sliced, 1}, {tile.items(), 1, 1}};
  launch.cost = {static_cast<double>(parts.elements()),
                 static_cast<double>(parts.bytes() + parts.bytes() / plan.slices)};
  std::vector<Argument> arguments;
  append_each(arguments, problems, [](const GemmProduct& each) { return each.y; });
  arguments.insert(arguments.end(), {parts, or_else(p.epilogue.residual, p.y)});
  append_each(arguments, problems,
              [](const GemmProduct& each) { return or_else(each.epilogue.bias, each.y); });
  if (!p.epilogue.column_scale.empty()) arguments.emplace_back(p.epilogue.column_scale);
  arguments.emplace_back(g.M);
  append_each(arguments, problems, [](const GemmProduct& each) { return u32(each.columns()); });
  arguments.insert(arguments.end(),
                   {g.has_addend, g.has_bias, plan.whole_tiles, sliced, plan.slices});
  batch.record(std::move(launch), std::move(arguments));
}

Cost cost_of(Problems problems) {
  Cost cost;
  for (const GemmProduct& p : problems) {
    cost = {cost.flops + p.cost().flops, cost.bytes + p.cost().bytes};
  }
  return cost;
}

// With a tile from the tuned tables, if there is one.
GemmPortablePlan tuned_plan(Context& context, Problems problems) {
  const Sizes sizes = sizes_of(problems);
  const NamedNumbers values = tuned_values(
      context, {.file = "gemm.cl",
                .kernel = "gemm",
                .fixed = types_of(problems.front()),
                .sizes = {{"M", sizes.rows}, {"N", sizes.all_columns()}, {"K", sizes.steps()}}});
  const GemmTile tuned{.rows = tuned_or(values, "TILE_ROWS", 0U),
                       .columns = tuned_or(values, "TILE_COLUMNS", 0U),
                       .steps = tuned_or(values, "STEPS", 0U),
                       .item_rows = tuned_or(values, "ITEM_ROWS", 0U),
                       .item_columns = tuned_or(values, "ITEM_COLUMNS", 0U)};
  if (tuned.fits(context.device()) && sizes.support(tuned)) {
    return best_plan(context.device(), {&tuned, 1}, sizes);
  }
  return plan_gemm_portable(context.device(), problems);
}

// Whether one program can compute both products, and one the shrinks of both.
bool is_like(const GemmProduct& p, const GemmProduct& first) {
  return p.x.type() == first.x.type() && p.w.type() == first.w.type() &&
         p.w.layout() == first.w.layout() && p.has_shrink() == first.has_shrink() &&
         p.low_rank().a_scale == first.low_rank().a_scale &&
         (p.rank() == 0 || p.low_rank().s.type() == DType::f32);
}

}  // namespace

// NVIDIA's compiler unrolls a loop completely without more registers and gains 10 %; others load
// all steps in advance.
void set_unrolling(Defines& defines, const Device& device, std::uint32_t steps) {
  if (has_nvidia_driver(device)) defines.set("UNROLL_STEPS", steps);
}

bool GemmTile::fits(const Device& device) const {
  const bool is_whole = rows > 0 && columns > 0 && steps > 0 && item_rows > 0 && item_columns > 0 &&
                        item_rows % kFour == 0 && item_columns % kFour == 0 && steps % kFour == 0 &&
                        rows % item_rows == 0 && columns % item_columns == 0;
  if (!is_whole) return false;
  const std::uint64_t fetched = std::uint64_t{kFour} * items();
  return std::uint64_t{rows} * steps % fetched == 0 &&
         std::uint64_t{columns} * steps % fetched == 0 && items() <= device.max_work_group_size &&
         local_bytes() <= device.local_memory_bytes;
}

std::span<const GemmTile> gemm_tiles_portable() { return kTiles; }

GemmPortablePlan plan_gemm_portable(const Device& device, Problems problems) {
  return best_plan(device, tiles_for(device), sizes_of(problems));
}

bool gemm_portable_is_faster_grouped(const Device& device, Problems problems) {
  const auto time_of = [&](const GemmPortablePlan& plan, Problems of) {
    return estimated_time(device, plan, sizes_of(of)) + kLaunchFlops / kBusyItems;
  };
  const GemmPortablePlan grouped = plan_gemm_portable(device, problems);
  if (grouped.tile == GemmTile()) return false;  // no tiling supports a sum of these steps
  double apart = 0;
  for (const GemmProduct& p : problems) {
    apart += time_of(plan_gemm_portable(device, {&p, 1}), {&p, 1});
  }
  return time_of(grouped, problems) <= apart;
}

void record_gemm_portable(Batch& batch, Problems problems, const GemmPortablePlan& plan) {
  const GemmTile& tile = plan.tile;
  const GemmProduct& first = problems.front();
  const Defines defines = defines_of(problems, tile, batch.context().device());
  const std::uint32_t sliced = sizes_of(problems).tiles(tile) - plan.whole_tiles;
  const std::int64_t parts_elements =
      std::int64_t{plan.slices} * sliced * tile.rows * std::int64_t{tile.columns};
  const Tensor parts =
      sliced > 0 ? batch.temporary({parts_elements}, DType::f32, "gemm slices") : first.y;
  Launch launch = launch_of(batch.context(), first, "gemm", defines);
  launch.cost = cost_of(problems);
  const std::size_t groups = plan.whole_tiles + std::size_t{sliced} * plan.slices;
  launch.grid = {{groups * tile.items(), 1, 1}, {tile.items(), 1, 1}};
  batch.record(std::move(launch), arguments_of(problems, parts, plan));
  if (sliced > 0) record_sum_of_slices(batch, problems, parts, plan, defines);
}

void record_gemm_portable(Batch& batch, const GemmProduct& p) {
  record_gemm_portable(batch, {&p, 1}, tuned_plan(batch.context(), {&p, 1}));
}

bool gemm_portable_can_group(const Context& context, Problems problems) {
  const GemmProduct& first = problems.front();
  const std::vector<GemmProduct> products = without_shrinks(problems);
  return can_be_grouped(products) && first.epilogue.column_scale.empty() &&
         !first.has_row_groups() &&
         std::ranges::all_of(problems, [&](const GemmProduct& p) { return is_like(p, first); }) &&
         gemm_portable_is_faster_grouped(context.device(), products);
}

void record_gemm_portable_group(Batch& batch, Problems problems) {
  const auto record = [&](const std::vector<GemmProduct>& products) {
    record_gemm_portable(batch, products, tuned_plan(batch.context(), products));
  };
  if (problems.front().has_shrink()) record(shrinks_of(problems, AdapterCopies::ignored));
  record(without_shrinks(problems));
}

}  // namespace clora
