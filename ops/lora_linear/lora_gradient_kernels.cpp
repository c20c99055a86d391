#include "ops/lora_linear/lora_gradient_kernels.hpp"

#include <algorithm>

#include "ops/activations.hpp"
#include "ops/dispatch/cpu_vector_defines.hpp"
#include "ops/dispatch/variant_dispatch.hpp"
#include "ops/launch_grids.hpp"
#include "runtime/integer_sizes.hpp"

namespace clora {
namespace {

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

Launch launch_of(const LoraGradientProduct& g) {
  const auto flops = 2.0 * static_cast<double>(g.s.elements() * g.x.shape()[1]);
  const std::size_t bytes = g.s.bytes() + g.x.bytes() + 2 * g.out.bytes();
  return {{}, {}, {flops, static_cast<double>(bytes)}, "lora_linear/gradient"};
}

// Whether items may read four elements of a row of x at once.
bool has_rows_of_fours(const Tensor& x) {
  return x.shape()[1] % kItemColumns == 0 &&
         x.offset_bytes() % bytes_of(x.type(), kItemColumns) == 0;
}

}  // namespace

bool lora_gradient_cpu_passed(Context& context, const LoraGradientProduct&) {
  return passed_self_test(context, {kLoraCpu, "lora_gradient"}, test_gradient);
}

void record_gradient_cpu(Batch& batch, std::span<const LoraGradientProduct> problem) {
  const LoraGradientProduct& g = problem.front();
  const std::uint32_t width = u32(g.x.shape()[1]);
  Launch launch = launch_of(g);
  Defines defines;
  define_cpu_vectors(defines, batch.context().device());
  launch.kernel = batch.context().kernel(kLoraCpu, "lora_gradient", defines);
  const RowShare strips = share_rows(divide_up(width, kStrip), batch.context().device());
  launch.grid = single_item_groups(strips.groups);
  batch.launch(std::move(launch), g.out, record_upcast(batch, g.s), record_upcast(batch, g.x),
               u32(g.x.shape()[0]), u32(g.s.shape()[1]), width, g.scale,
               strips.rows_per_group * kStrip);
}

void record_gradient_portable(Batch& batch, std::span<const LoraGradientProduct> problem) {
  const LoraGradientProduct& g = problem.front();
  Context& context = batch.context();
  const std::uint32_t rows = u32(g.x.shape()[0]), rank = u32(g.s.shape()[1]);
  const std::uint32_t width = u32(g.x.shape()[1]);
  const std::size_t items = reduction_group(context.device(), kItems);
  const std::uint32_t item_columns = has_rows_of_fours(g.x) ? kItemColumns : 1;
  Defines defines;
  defines.set("ITEMS", items).set("VEC_SIZE", item_columns);
  defines.set("RANKS", kRanks).set("STEPS", kSteps).set("X_TYPE", name_of(g.x.type()));
  defines.set("S_TYPE", name_of(g.s.type()));
  const std::uint32_t strips =
      divide_up(width, u32(static_cast<std::int64_t>(items)) * item_columns);
  const std::uint32_t wanted = kGroupsPerUnit * std::max(1U, context.device().compute_units);
  const std::uint32_t chunk_rows = std::max(kSteps, divide_up(rows * strips, wanted));
  const std::uint32_t chunks = divide_up(rows, chunk_rows);
  const Tensor parts = batch.temporary({chunks, rank, width}, DType::f32, "lora gradient parts");
  Launch launch = launch_of(g);
  const std::string label = launch.label;
  launch.kernel = context.kernel(kLoraPortable, "lora_gradient_parts", defines);
  launch.grid = {{strips * items, chunks, divide_up(rank, kRanks)}, {items, 1, 1}};
  batch.launch(std::move(launch), parts, g.s, g.x, rows, rank, width, chunk_rows);
  Launch sum{context.kernel(kLoraPortable, "lora_gradient_sum", defines),
             {{round_up(std::size_t{rank} * width, kItems), 1, 1}, {kItems, 1, 1}},
             {},
             label + " sum"};
  batch.launch(std::move(sum), g.out, parts, rank * width, chunks, g.scale);
}

}  // namespace clora
