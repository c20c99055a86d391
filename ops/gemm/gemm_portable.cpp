#include "ops/gemm/gemm_portable.hpp"

#include <algorithm>
#include <array>
#include <limits>

#include "clora/ops/quant/quant.hpp"
#include "ops/launch_grids.hpp"
#include "ops/tuned/tuned.hpp"
#include "runtime/integer_sizes.hpp"

namespace clora {
namespace {

constexpr std::uint32_t kFour = 4;
constexpr std::array<GemmTile, 5> kTiles{GemmTile{128, 128, 8, 8, 8}, GemmTile{64, 128, 16, 8, 8},
                                         GemmTile{64, 64, 16, 4, 8}, GemmTile{32, 64, 16, 4, 8},
                                         GemmTile{32, 32, 8, 4, 4}};

// Work-items of a compute unit that hide the latency of its arithmetic and local memory.
constexpr double kBusyItems = 256;
// A float read from local memory takes an item about as long as this many fma.
constexpr double kLocalReadFlops = 2;
// A group's start, first fetch and epilogue, in steps of K.
constexpr double kGroupSteps = 24;
// Writing and adding a slice of y costs about as many fma an element.
constexpr double kSliceFlops = 32;
constexpr std::uint32_t kMaxSlices = 16;
constexpr std::uint32_t kMinSliceSteps = 128;

double estimated_time(const Device& device, const GemmTile& tile, std::uint32_t slices,
                      const GemmSize& size) {
  const std::uint32_t units = std::max(1U, device.compute_units);
  const std::uint32_t tiles =
      divide_up(size.rows, tile.rows) * divide_up(size.columns, tile.columns);
  const double groups_a_unit = divide_up(tiles * slices, units);
  const double sums = tile.item_rows * tile.item_columns;
  const double reads = kLocalReadFlops * (tile.item_rows + tile.item_columns);
  const double steps = divide_up(size.k, slices) + kGroupSteps;
  const double items_in_flight = std::min(kBusyItems, groups_a_unit * tile.items());
  const double product = groups_a_unit * tile.items() * (sums + reads) * steps / items_in_flight;
  if (slices == 1) return product;
  return product + kSliceFlops * (slices + 1) * size.rows * size.columns / units / kBusyItems;
}

GemmPortablePlan with_slices(const GemmTile& tile, std::uint32_t slices, const GemmSize& size) {
  const std::uint32_t steps = round_up(divide_up(size.k, slices), tile.steps);
  return {tile, divide_up(size.k, steps), steps};
}

GemmPortablePlan best_plan(const Device& device, std::span<const GemmTile> tiles,
                           const GemmSize& size) {
  GemmPortablePlan best;
  double least = std::numeric_limits<double>::infinity();
  for (const GemmTile& tile : tiles) {
    if (!tile.fits(device)) continue;
    for (std::uint32_t slices = 1; slices <= kMaxSlices; ++slices) {
      if (slices > 1 && size.k < slices * kMinSliceSteps) break;
      const double time = estimated_time(device, tile, slices, size);
      if (time >= least) continue;
      least = time;
      best = with_slices(tile, slices, size);
    }
  }
  return best;
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
  const std::array along_n{p.y, p.addend, p.bias, p.backward ? p.w : Tensor()};
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
                          const Defines& defines) {
  const GemmProblem g = p.problem();
  Launch launch = launch_of(batch.context(), p, "gemm_sum_slices", defines);
  const std::size_t group = reduction_group(batch.context().device());
  const auto elements = static_cast<std::size_t>(p.y.elements());
  launch.grid = groups_of(group, divide_up(elements, group));
  launch.cost = {static_cast<double>(parts.elements()),
                 static_cast<double>(parts.bytes() + p.y.bytes())};
  batch.record(std::move(launch),
               {p.y, parts, or_else(p.addend, p.y), or_else(p.bias, p.y), g.M, g.N,
                static_cast<std::uint32_t>(parts.shape()[0]), g.has_addend, g.has_bias});
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
  const std::span<const GemmTile> all = kTiles;
  // A CPU keeps the sums of all items of a group in memory: the fewer, the better.
  const bool is_cpu = device.kind == DeviceKind::cpu;
  return best_plan(device, is_cpu ? all.last(1) : all,
                   {u32(p.rows()), u32(p.columns()), u32(p.k())});
}

void record_gemm_portable(Batch& batch, const GemmProduct& p, const GemmPortablePlan& plan) {
  const auto& [tile, slices, slice_steps] = plan;
  Defines defines = types_of(p);
  set_alignment(defines, p);
  defines.set("TILE_ROWS", tile.rows).set("TILE_COLUMNS", tile.columns).set("STEPS", tile.steps);
  defines.set("ITEM_ROWS", tile.item_rows).set("ITEM_COLUMNS", tile.item_columns);
  set_unrolling(defines, batch.context().device(), tile.steps);
  if (slices > 1) defines.set("SPLIT", 1);
  GemmProduct product = p;
  if (slices > 1) {
    product.y = batch.temporary({slices, p.rows(), p.columns()}, DType::f32, "gemm slices");
  }
  const GemmProblem g = p.problem();
  Launch launch = launch_of(batch.context(), p, "gemm", defines);
  launch.cost = p.cost();
  launch.grid = {
      {std::size_t{divide_up(g.N, tile.columns)} * tile.items(), divide_up(g.M, tile.rows), slices},
      {tile.items(), 1, 1}};
  // Single numbers, which clc sets and reads by their names.
  batch.record(std::move(launch), gemm_arguments(product, GemmShrink::never_fused,
                                                 {g.M, g.N, g.K, g.R, g.alpha, g.scale,
                                                  g.has_addend, g.has_bias, slice_steps}));
  if (slices > 1) record_sum_of_slices(batch, p, product.y, defines);
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
