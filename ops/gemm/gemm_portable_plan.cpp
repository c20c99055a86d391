#include "ops/gemm/gemm_portable_plan.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <vector>

#include "runtime/integer_sizes.hpp"

namespace clora {
namespace {

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
// Costs cannot ask for more; the kernels were measured up to here.
constexpr std::uint32_t kMaxSlices = 16;

// Groups that a compute unit runs at the same time, by their registers.
std::uint32_t groups_of_unit(const GemmTile& tile) {
  const std::uint32_t registers =
      std::min(kMaxItemRegisters, kOtherRegisters + 2 * tile.item_rows * tile.item_columns);
  return std::max(1U, kUnitRegisters / (registers * tile.items()));
}

std::uint32_t units_of(const Device& device) { return std::max(1U, device.compute_units); }

// What an estimate depends on next to the plan.
struct Estimate {
  const Device& device;
  const GemmPortableCosts& costs;

  double busy_items() const { return std::max(1.0, costs.busy_items); }
  double time_of_launch() const { return costs.launch / busy_items(); }
};

// The time of `groups` groups of `steps` steps each, in fma of an item at full speed. They run in
// rounds of as many as fit; the last round takes as long as the unit with the most groups.
double time_of_groups(const Estimate& of, const GemmTile& tile, std::uint32_t groups,
                      std::uint32_t steps) {
  const std::uint32_t of_round = units_of(of.device) * groups_of_unit(tile);
  const double last = divide_up(groups % of_round, units_of(of.device));
  const double busy_units = last * tile.items() / of.busy_items();
  const double rounds = groups / of_round * groups_of_unit(tile) * tile.items() / of.busy_items() +
                        (last > 0 ? std::max(1.0, busy_units) : 0);
  const double reads = of.costs.local_read * (tile.item_rows + tile.item_columns);
  return rounds * (tile.item_rows * tile.item_columns + reads) * (steps + of.costs.group_steps);
}

double estimated_time(const Estimate& of, const GemmPortablePlan& plan,
                      const GemmPortableSizes& sizes) {
  const std::uint32_t sliced = sizes.tiles(plan.tile) - plan.whole_tiles;
  const double whole = time_of_groups(of, plan.tile, plan.whole_tiles, sizes.steps());
  if (sliced == 0) return whole;
  const double elements = (plan.slices + 1.0) * sliced * plan.tile.rows * plan.tile.columns;
  return whole + time_of_groups(of, plan.tile, sliced * plan.slices, plan.slice_steps) +
         of.costs.slice * elements / units_of(of.device) / of.busy_items() + of.time_of_launch();
}

GemmPortablePlan with_slices(const GemmTile& tile, std::uint32_t whole_tiles, std::uint32_t slices,
                             const GemmPortableSizes& sizes) {
  const std::uint32_t steps = round_up(divide_up(sizes.steps(), slices), tile.steps);
  return {tile, whole_tiles, divide_up(sizes.steps(), steps), steps};
}

// The plans among which an op chooses for a tiling: all tiles whole, or those after the last
// complete rounds, and perhaps one round more, in slices.
std::vector<GemmPortablePlan> plans_of(const Estimate& of, const GemmTile& tile,
                                       const GemmPortableSizes& sizes) {
  const std::uint32_t tiles = sizes.tiles(tile);
  const std::uint32_t of_round = units_of(of.device) * groups_of_unit(tile);
  std::vector<GemmPortablePlan> plans{with_slices(tile, tiles, 1, sizes)};
  const std::uint32_t in_rounds = tiles / of_round * of_round;
  const double most = std::min<double>(kMaxSlices, of.costs.max_slices);
  for (std::uint32_t slices = 2; slices <= most; ++slices) {
    if (sizes.steps() < slices * of.costs.min_slice_steps) break;
    if (in_rounds < tiles) plans.push_back(with_slices(tile, in_rounds, slices, sizes));
    if (in_rounds > 0) plans.push_back(with_slices(tile, in_rounds - of_round, slices, sizes));
  }
  return plans;
}

GemmPortablePlan best_plan(const Estimate& of, std::span<const GemmTile> tiles,
                           const GemmPortableSizes& sizes) {
  GemmPortablePlan best;
  double least = std::numeric_limits<double>::infinity();
  for (const GemmTile& tile : tiles) {
    if (!tile.fits(of.device) || !sizes.support(tile)) continue;
    for (const GemmPortablePlan& plan : plans_of(of, tile, sizes)) {
      const double time = estimated_time(of, plan, sizes);
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

}  // namespace

bool GemmTile::fits(const Device& device) const {
  const bool is_whole = rows > 0 && columns > 0 && steps > 0 && item_rows > 0 && item_columns > 0 &&
                        item_rows % GemmTile::kVector == 0 &&
                        item_columns % GemmTile::kVector == 0 && steps % GemmTile::kVector == 0 &&
                        rows % item_rows == 0 && columns % item_columns == 0;
  if (!is_whole) return false;
  const std::uint64_t fetched = std::uint64_t{GemmTile::kVector} * items();
  return std::uint64_t{rows} * steps % fetched == 0 &&
         std::uint64_t{columns} * steps % fetched == 0 && items() <= device.max_work_group_size &&
         local_bytes() <= device.local_memory_bytes;
}

std::span<const GemmTile> gemm_tiles_portable() { return kTiles; }

std::uint32_t GemmPortableSizes::tiles(const GemmTile& tile) const {
  std::uint32_t across = 0;
  for (const std::uint32_t each : columns) across += divide_up(each, tile.columns);
  return divide_up(rows, tile.rows) * across;
}

std::uint32_t GemmPortableSizes::all_columns() const {
  return std::accumulate(columns.begin(), columns.end(), 0U);
}

std::uint32_t GemmPortableSizes::steps() const {
  return is_sum ? std::accumulate(k.begin(), k.end(), 0U) : std::ranges::max(k);
}

bool GemmPortableSizes::support(const GemmTile& tile) const {
  return !is_sum ||
         std::ranges::all_of(k, [&](std::uint32_t each) { return each % tile.steps == 0; });
}

GemmPortableSizes sizes_of(GemmPortableProblems problems) {
  GemmPortableSizes sizes{.rows = u32(problems.front().rows()),
                          .is_sum = problems.size() > 1 && problems.front().backward};
  for (std::size_t i = 0; i < problems.size(); ++i) {
    if (i == 0 || !sizes.is_sum) sizes.columns.at(i) = u32(problems[i].columns());
    sizes.k.at(i) = u32(problems[i].k());
  }
  return sizes;
}

GemmPortablePlan plan_gemm_portable(const Device& device, const GemmPortableCosts& costs,
                                    GemmPortableProblems problems) {
  return best_plan({device, costs}, tiles_for(device), sizes_of(problems));
}

GemmPortablePlan plan_gemm_portable_with(const GemmTile& tile, const Device& device,
                                         const GemmPortableCosts& costs,
                                         GemmPortableProblems problems) {
  return best_plan({device, costs}, {&tile, 1}, sizes_of(problems));
}

bool gemm_portable_is_faster_grouped(const Device& device, const GemmPortableCosts& costs,
                                     GemmPortableProblems problems) {
  const Estimate of{device, costs};
  const auto time_of = [&](const GemmPortablePlan& plan, GemmPortableProblems some) {
    return estimated_time(of, plan, sizes_of(some)) + of.time_of_launch();
  };
  const GemmPortablePlan grouped = plan_gemm_portable(device, costs, problems);
  if (grouped.tile == GemmTile()) return false;  // no tiling supports a sum of these steps
  double apart = 0;
  for (const GemmProduct& p : problems) {
    apart += time_of(plan_gemm_portable(device, costs, {&p, 1}), {&p, 1});
  }
  return time_of(grouped, problems) <= apart;
}

}  // namespace clora
