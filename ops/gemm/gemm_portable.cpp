#include "ops/gemm/gemm_portable.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <vector>

#include "clora/ops/quant/quant.hpp"
#include "ops/launch_grids.hpp"
#include "ops/tuned/tuned.hpp"
#include "runtime/integer_sizes.hpp"

namespace clora {
namespace {

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
// Writing and adding an element of a slice takes a unit as long as this many fma, the launch that
// adds the slices as long as this many.
constexpr double kSliceFlops = 16;
constexpr double kSliceLaunchFlops = 3e5;
constexpr std::uint32_t kMaxSlices = 16;
constexpr std::uint32_t kMinSliceSteps = 64;

// Groups that a compute unit runs at the same time, by their registers.
std::uint32_t groups_of_unit(const GemmTile& tile) {
  const std::uint32_t registers =
      std::min(kMaxItemRegisters, kOtherRegisters + 2 * tile.item_rows * tile.item_columns);
  return std::max(1U, kUnitRegisters / (registers * tile.items()));
}

std::uint32_t units_of(const Device& device) { return std::max(1U, device.compute_units); }

std::uint32_t tiles_of(const GemmTile& tile, const GemmSize& size) {
  return divide_up(size.rows, tile.rows) * divide_up(size.columns, tile.columns);
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

double estimated_time(const Device& device, const GemmPortablePlan& plan, const GemmSize& size) {
  const std::uint32_t sliced = tiles_of(plan.tile, size) - plan.whole_tiles;
  const double whole = time_of_groups(device, plan.tile, plan.whole_tiles, size.k);
  if (sliced == 0) return whole;
  const double elements = (plan.slices + 1.0) * sliced * plan.tile.rows * plan.tile.columns;
  return whole + time_of_groups(device, plan.tile, sliced * plan.slices, plan.slice_steps) +
         (kSliceFlops * elements / units_of(device) + kSliceLaunchFlops) / kBusyItems;
}

GemmPortablePlan with_slices(const GemmTile& tile, std::uint32_t whole_tiles, std::uint32_t slices,
                             const GemmSize& size) {
  const std::uint32_t steps = round_up(divide_up(size.k, slices), tile.steps);
  return {tile, whole_tiles, divide_up(size.k, steps), steps};
}

// The plans among which an op chooses for a tiling: all tiles whole, or those after the last
// complete rounds, and perhaps one round more, in slices.
std::vector<GemmPortablePlan> plans_of(const Device& device, const GemmTile& tile,
                                       const GemmSize& size) {
  const std::uint32_t tiles = tiles_of(tile, size);
  const std::uint32_t of_round = units_of(device) * groups_of_unit(tile);
  std::vector<GemmPortablePlan> plans{with_slices(tile, tiles, 1, size)};
  const std::uint32_t in_rounds = tiles / of_round * of_round;
  for (std::uint32_t slices = 2; slices <= kMaxSlices; ++slices) {
    if (size.k < slices * kMinSliceSteps) break;
    if (in_rounds < tiles) plans.push_back(with_slices(tile, in_rounds, slices, size));
    if (in_rounds > 0) plans.push_back(with_slices(tile, in_rounds - of_round, slices, size));
  }
  return plans;
}

GemmPortablePlan best_plan(const Device& device, std::span<const GemmTile> tiles,
                           const GemmSize& size) {
  GemmPortablePlan best;
  double least = std::numeric_limits<double>::infinity();
  for (const GemmTile& tile : tiles) {
    if (!tile.fits(device)) continue;
    for (const GemmPortablePlan& plan : plans_of(device, tile, size)) {
      const double time = estimated_time(device, plan, size);
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

Defines types_of(const GemmProduct& p) {
  Defines defines;
  set_weight_type(defines, p.w);
  defines.set("X_TYPE", name_of(p.x.type())).set("Y_TYPE", name_of(p.y.type()));
  defines.set("BACKWARD", p.backward ? 1 : 0);
  return defines;
}

// For the vectors of four that the kernel reads and writes in one access.
void set_alignment(Defines& defines, const GemmProduct& p) {
  const std::array along_k{p.x, p.backward ? Tensor() : p.w};
  const std::array along_n{p.y, p.epilogue.residual, p.epilogue.bias, p.epilogue.column_scale,
                           p.backward ? p.w : Tensor()};
  if (has_rows_of_fours(p.k(), along_k)) defines.set("K_OF_FOURS");
  if (has_rows_of_fours(p.columns(), along_n)) defines.set("N_OF_FOURS");
}

Launch launch_of(Context& context, const GemmProduct& p, std::string_view function,
                 const Defines& defines) {
  Launch launch{{}, {}, {}, p.backward ? "gemm/backward" : "gemm/forward"};
  launch.kernel = context.kernel("gemm.cl", function, defines);
  return launch;
}

void record_sum_of_slices(Batch& batch, const GemmProduct& p, const Tensor& parts,
                          const GemmPortablePlan& plan, const Defines& defines) {
  const GemmProblem g = p.problem();
  const GemmTile& tile = plan.tile;
  const std::uint32_t sliced = tiles_of(tile, p.size()) - plan.whole_tiles;
  Launch launch = launch_of(batch.context(), p, "gemm_add_slices", defines);
  launch.grid = {{tile.rows * std::size_t{tile.columns} / kFour, sliced, 1}, {tile.items(), 1, 1}};
  launch.cost = {static_cast<double>(parts.elements()),
                 static_cast<double>(parts.bytes() + parts.bytes() / plan.slices)};
  std::vector<Argument> arguments{p.y, parts, or_else(p.epilogue.residual, p.y),
                                  or_else(p.epilogue.bias, p.y)};
  if (!p.epilogue.column_scale.empty()) arguments.emplace_back(p.epilogue.column_scale);
  arguments.insert(arguments.end(),
                   {g.M, g.N, g.has_addend, g.has_bias, plan.whole_tiles, sliced, plan.slices});
  batch.record(std::move(launch), std::move(arguments));
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

GemmPortablePlan plan_gemm_portable(const Device& device, const GemmProduct& p) {
  return best_plan(device, tiles_for(device), {u32(p.rows()), u32(p.columns()), u32(p.k())});
}

void record_gemm_portable(Batch& batch, const GemmProduct& p, const GemmPortablePlan& plan) {
  const GemmTile& tile = plan.tile;
  Defines defines = types_of(p);
  set_alignment(defines, p);
  defines.set("TILE_ROWS", tile.rows).set("TILE_COLUMNS", tile.columns).set("STEPS", tile.steps);
  defines.set("ITEM_ROWS", tile.item_rows).set("ITEM_COLUMNS", tile.item_columns);
  define_epilogue(defines, p);
  set_unrolling(defines, batch.context().device(), tile.steps);
  const GemmProblem g = p.problem();
  const std::uint32_t sliced = tiles_of(tile, {g.M, g.N, g.K}) - plan.whole_tiles;
  const std::int64_t parts_elements =
      std::int64_t{plan.slices} * sliced * tile.rows * std::int64_t{tile.columns};
  const Tensor parts =
      sliced > 0 ? batch.temporary({parts_elements}, DType::f32, "gemm slices") : p.y;
  Launch launch = launch_of(batch.context(), p, "gemm", defines);
  launch.cost = p.cost();
  const std::size_t groups = plan.whole_tiles + std::size_t{sliced} * plan.slices;
  launch.grid = {{groups * tile.items(), 1, 1}, {tile.items(), 1, 1}};
  // Single numbers, which clc sets and reads by their names.
  batch.record(std::move(launch),
               gemm_arguments_of_options(p, GemmShrink::never_fused,
                                         {parts, g.M, g.N, g.K, g.R, g.alpha, g.scale, g.has_addend,
                                          g.has_bias, plan.whole_tiles, sliced, plan.slice_steps}));
  if (sliced > 0) record_sum_of_slices(batch, p, parts, plan, defines);
}

void record_gemm_portable(Batch& batch, const GemmProduct& p) {
  const Device& device = batch.context().device();
  const GemmSize size{u32(p.rows()), u32(p.columns()), u32(p.k())};
  const NamedNumbers values = tuned_values(
      batch.context(), {.file = "gemm.cl",
                        .kernel = "gemm",
                        .fixed = types_of(p),
                        .sizes = {{"M", size.rows}, {"N", size.columns}, {"K", size.k}}});
  GemmPortablePlan plan = plan_gemm_portable(device, p);
  const GemmTile tuned{.rows = tuned_or(values, "TILE_ROWS", 0U),
                       .columns = tuned_or(values, "TILE_COLUMNS", 0U),
                       .steps = tuned_or(values, "STEPS", 0U),
                       .item_rows = tuned_or(values, "ITEM_ROWS", 0U),
                       .item_columns = tuned_or(values, "ITEM_COLUMNS", 0U)};
  if (tuned.fits(device)) plan = best_plan(device, {&tuned, 1}, size);
  record_gemm_portable(batch, p, plan);
}

}  // namespace clora
