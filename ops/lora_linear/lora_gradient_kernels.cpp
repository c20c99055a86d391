#include "ops/lora_linear/lora_gradient_kernels.hpp"

#include <algorithm>
#include <vector>

#include "ops/activations.hpp"
#include "ops/dispatch/cpu_vector_defines.hpp"
#include "ops/dispatch/variant_dispatch.hpp"
#include "ops/gemm/gemm_groups.hpp"
#include "ops/launch_grids.hpp"
#include "runtime/integer_sizes.hpp"

namespace clora {
namespace {

using Problems = std::span<const LoraGradientProduct>;

// cl/lora_linear/lora_linear.cl: maximum items of a work-group, and columns of an item; rows of
// out, and rows of x, at once
constexpr std::size_t kItems = 64;
constexpr std::uint32_t kItemColumns = 4;
constexpr std::uint32_t kRanks = 16;
constexpr std::uint32_t kSteps = 64;
// Work-groups per compute unit that the rows are split for.
constexpr std::uint32_t kGroupsPerUnit = 16;
// cl/lora_linear/lora_linear_cpu.cl: the columns of a group are a multiple of its widest tile's.
constexpr std::uint32_t kStrip = 32;

void test_gradient(SelfTest& test) {
  constexpr std::int64_t kWidth = 2 * kStrip + 5;
  const Tensor x = test.input({7, kWidth}), s = test.input({7, 5});
  const Tensor out = test.changed(test.input({5, kWidth}));
  record_gradient(test.batch(), {.out = out, .s = s, .x = x, .scale = 0.5F});
}

std::uint32_t rows_of(const LoraGradientProduct& g) { return u32(g.x.shape()[0]); }
std::uint32_t rank_of(const LoraGradientProduct& g) { return u32(g.s.shape()[1]); }
std::uint32_t columns_of(const LoraGradientProduct& g) { return u32(g.x.shape()[1]); }

Launch launch_of(Problems problems) {
  Cost cost;
  for (const LoraGradientProduct& g : problems) {
    cost.flops += 2.0 * static_cast<double>(g.s.elements() * g.x.shape()[1]);
    cost.bytes += static_cast<double>(g.s.bytes() + g.x.bytes() + 2 * g.out.bytes());
  }
  return {{}, {}, cost, "lora_linear/gradient"};
}

// Whether items may read four elements of a row of x at once.
bool has_rows_of_fours(const Tensor& x) {
  return x.shape()[1] % kItemColumns == 0 &&
         x.offset_bytes() % bytes_of(x.type(), kItemColumns) == 0;
}

Defines portable_defines(Problems problems, std::size_t items, std::uint32_t item_columns) {
  const LoraGradientProduct& first = problems.front();
  Defines defines;
  defines.set("ITEMS", items).set("VEC_SIZE", item_columns);
  defines.set("RANKS", kRanks).set("STEPS", kSteps).set("X_TYPE", name_of(first.x.type()));
  defines.set("S_TYPE", name_of(first.s.type()));
  if (problems.size() > 1) defines.set("PROBLEMS", problems.size());
  return defines;
}

// Rows of a work-group, of which there are `strips` side by side.
std::uint32_t chunk_rows_of(const Device& device, std::uint32_t rows, std::uint32_t strips) {
  const std::uint32_t wanted = kGroupsPerUnit * std::max(1U, device.compute_units);
  return std::max(kSteps, divide_up(rows * strips, wanted));
}

std::vector<Argument> arguments_of_parts(Problems problems, const Tensor& parts,
                                         std::uint32_t chunk_rows) {
  const LoraGradientProduct& first = problems.front();
  std::vector<Argument> list{parts};
  append_each(list, problems, [](const LoraGradientProduct& g) { return g.s; });
  append_each(list, problems, [](const LoraGradientProduct& g) { return g.x; });
  list.insert(list.end(), {rows_of(first), rank_of(first)});
  append_each(list, problems, columns_of);
  list.emplace_back(chunk_rows);
  return list;
}

std::vector<Argument> arguments_of_sum(Problems problems, const Tensor& parts,
                                       std::uint32_t chunks) {
  std::vector<Argument> list;
  append_each(list, problems, [](const LoraGradientProduct& g) { return g.out; });
  list.insert(list.end(), {parts, rank_of(problems.front())});
  append_each(list, problems, columns_of);
  list.emplace_back(chunks);
  append_each(list, problems, [](const LoraGradientProduct& g) { return g.scale; });
  return list;
}

}  // namespace

bool lora_gradient_cpu_passed(Context& context, const LoraGradientProduct&) {
  return passed_self_test(context, {kLoraCpu, "lora_gradient"}, test_gradient);
}

void record_gradient_cpu(Batch& batch, std::span<const LoraGradientProduct> problem) {
  const LoraGradientProduct& g = problem.front();
  const std::uint32_t width = u32(g.x.shape()[1]);
  Launch launch = launch_of(problem);
  Defines defines;
  define_cpu_vectors(defines, batch.context().device());
  launch.kernel = batch.context().kernel(kLoraCpu, "lora_gradient", defines);
  const RowShare strips = share_rows(divide_up(width, kStrip), batch.context().device());
  launch.grid = single_item_groups(strips.groups);
  batch.launch(std::move(launch), g.out, record_upcast(batch, g.s), record_upcast(batch, g.x),
               u32(g.x.shape()[0]), u32(g.s.shape()[1]), width, g.scale,
               strips.rows_per_group * kStrip);
}

bool portable_gradients_can_join(Problems problems, const LoraGradientProduct& p) {
  const LoraGradientProduct& first = problems.front();
  return rows_of(p) == rows_of(first) && rank_of(p) == rank_of(first) &&
         p.x.type() == first.x.type() && p.s.type() == first.s.type() &&
         has_rows_of_fours(p.x) == has_rows_of_fours(first.x);
}

void record_gradients_portable(Batch& batch, Problems problems) {
  const LoraGradientProduct& first = problems.front();
  Context& context = batch.context();
  const std::size_t items = reduction_group(context.device(), kItems);
  const std::uint32_t item_columns = has_rows_of_fours(first.x) ? kItemColumns : 1;
  const Defines defines = portable_defines(problems, items, item_columns);
  std::uint32_t strips = 0, width = 0, widest = 0;
  for (const LoraGradientProduct& g : problems) {
    strips += divide_up(columns_of(g), u32(static_cast<std::int64_t>(items)) * item_columns);
    width += columns_of(g);
    widest = std::max(widest, columns_of(g));
  }
  const std::uint32_t rank = rank_of(first);
  const std::uint32_t chunk_rows = chunk_rows_of(context.device(), rows_of(first), strips);
  const std::uint32_t chunks = divide_up(rows_of(first), chunk_rows);
  const Tensor parts = batch.temporary({chunks, rank, width}, DType::f32, "lora gradient parts");
  Launch launch = launch_of(problems);
  const std::string label = launch.label;
  launch.kernel = context.kernel(kLoraPortable, "lora_gradient_parts", defines);
  launch.grid = {{strips * items, chunks, divide_up(rank, kRanks)}, {items, 1, 1}};
  batch.record(std::move(launch), arguments_of_parts(problems, parts, chunk_rows));
  Launch sum{context.kernel(kLoraPortable, "lora_gradient_sum", defines),
             {{round_up(std::size_t{rank} * widest, kItems), problems.size(), 1}, {kItems, 1, 1}},
             {},
             label + " sum"};
  batch.record(std::move(sum), arguments_of_sum(problems, parts, chunks));
}

}  // namespace clora
