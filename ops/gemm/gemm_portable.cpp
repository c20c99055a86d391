#include "ops/gemm/gemm_portable.hpp"

#include <algorithm>
#include <array>
#include <vector>

#include "clora/ops/quant/quant.hpp"
#include "ops/gemm/gemm_groups.hpp"
#include "ops/launch_grids.hpp"
#include "ops/tuned/costs.hpp"
#include "ops/tuned/tuned.hpp"
#include "runtime/integer_sizes.hpp"

namespace clora {
namespace {

using Problems = GemmPortableProblems;

bool starts_aligned(const Tensor& t) {
  return t.empty() || t.offset_bytes() % bytes_of(t.type(), GemmTile::kVector) == 0;
}

// Whether rows of `length` elements of these tensors are aligned to four elements. Blocks of
// quantised and packed weights need no alignment.
bool has_rows_of_fours(std::int64_t length, std::span<const Tensor> tensors) {
  return length % GemmTile::kVector == 0 && std::ranges::all_of(tensors, [](const Tensor& t) {
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
  const GemmPortableSizes sizes = sizes_of(problems);
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
  const GemmPortableSizes sizes = sizes_of(problems);
  const std::uint32_t sliced = sizes.tiles(tile) - plan.whole_tiles;
  Launch launch = launch_of(batch.context(), p, "gemm_add_slices", defines);
  launch.grid = {{tile.rows * std::size_t{tile.columns} / GemmTile::kVector, sliced, 1},
                 {tile.items(), 1, 1}};
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
  const GemmPortableSizes sizes = sizes_of(problems);
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
  const auto& costs = costs_of<GemmPortableCosts>(context);
  if (tuned.fits(context.device()) && sizes.support(tuned)) {
    return plan_gemm_portable_with(tuned, context.device(), costs, problems);
  }
  return plan_gemm_portable(context.device(), costs, problems);
}

// Intel's compiler for CPUs (2026.22) crashes on the kernel of several problems, and takes the
// process with it.
bool compiler_crashes_on_groups(const Device& device) {
  return device.kind == DeviceKind::cpu && device.platform.starts_with("Intel");
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
  return !compiler_crashes_on_groups(context.device()) && can_be_grouped(products) &&
         first.epilogue.column_scale.empty() && !first.has_row_groups() &&
         std::ranges::all_of(problems, [&](const GemmProduct& p) { return is_like(p, first); }) &&
         gemm_portable_is_faster_grouped(context.device(), costs_of<GemmPortableCosts>(context),
                                         products);
}

void record_gemm_portable_group(Batch& batch, Problems problems) {
  const auto record = [&](const std::vector<GemmProduct>& products) {
    record_gemm_portable(batch, products, tuned_plan(batch.context(), products));
  };
  if (problems.front().has_shrink()) record(shrinks_of(problems, AdapterCopies::ignored));
  record(without_shrinks(problems));
}

}  // namespace clora
