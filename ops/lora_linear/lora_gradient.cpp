#include "clora/ops/lora_linear/lora_gradient.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "clora/ops/gemm/gemm.hpp"
#include "ops/activations.hpp"
#include "ops/dispatch/cpu_vector_defines.hpp"
#include "ops/dispatch/variant_dispatch.hpp"
#include "ops/launch_grids.hpp"
#include "runtime/integer_sizes.hpp"

namespace clora {
namespace {

// cl/lora_linear/lora_linear.cl: maximum columns of a work-group; rows of out, and rows of x, at
// once
constexpr std::size_t kColumns = 128;
constexpr std::uint32_t kRanks = 16;
constexpr std::uint32_t kSteps = 64;
// Work-groups per compute unit that the rows are split for.
constexpr std::uint32_t kGroupsPerUnit = 8;
// cl/lora_linear/lora_linear_cpu.cl
constexpr std::uint32_t kStrip = 32;

void test_gradient(SelfTest& test) {
  constexpr std::int64_t kWidth = 2 * kStrip + 5;
  const Tensor x = test.input({7, kWidth}), s = test.input({7, 5});
  const Tensor out = test.changed(test.input({5, kWidth}));
  record_gradient(test.batch(), {.out = out, .s = s, .x = x, .scale = 0.5F});
}

// Several strips of columns, the last one partial; chunks of an odd number of boxes, which two warp
// groups share; two blocks if there are many ranks; one problem, and several with and without a
// shrink.
void test_gradients_wgmma(SelfTest& test, std::uint32_t block_ranks) {
  constexpr std::int64_t kRows = 2900;
  const bool is_few = block_ranks == gradient_block_ranks(1);
  const auto bf16_input = [&](Shape shape) { return test.input(shape, 1, DType::bf16); };
  const auto problem = [&](std::int64_t rank, std::int64_t width, bool shrinks) {
    LoraGradientProduct p{.out = test.changed(test.input({rank, width})),
                          .s = bf16_input({kRows, rank}),
                          .x = bf16_input({kRows, width}),
                          .scale = 0.5F};
    if (!shrinks) return p;
    p.shrunk = test.output({kRows, rank}, DType::bf16);
    p.b = test.input({rank, width});
    p.shrink_scale = 0.25F;
    return p;
  };
  DeferredGradients deferred;
  deferred.record(test.batch(), std::array{problem(is_few ? 7 : 70, 1100, true)});
  const std::int64_t rank = is_few ? 5 : 20;
  deferred.add(test.batch(), problem(rank, 600, false));
  deferred.add(test.batch(), problem(rank, 40, false));
  deferred.record(test.batch(), std::array{problem(rank, 136, true), problem(rank, 530, true)});
}

Launch launch_of(const LoraGradientProduct& g) {
  const auto flops = 2.0 * static_cast<double>(g.s.elements() * g.x.shape()[1]);
  const std::size_t bytes = g.s.bytes() + g.x.bytes() + 2 * g.out.bytes();
  return {{}, {}, {flops, static_cast<double>(bytes)}, "lora_linear/gradient"};
}

void record_gradient_cpu(Batch& batch, const LoraGradientProduct& g) {
  const std::uint32_t width = u32(g.x.shape()[1]);
  Launch launch = launch_of(g);
  Defines defines;
  defines.set("COLUMNS", kStrip);
  define_cpu_vectors(defines, batch.context().device());
  launch.kernel = batch.context().kernel("lora_linear_cpu.cl", "lora_gradient", defines);
  launch.grid = single_item_groups(divide_up(width, kStrip));
  batch.launch(std::move(launch), g.out, record_upcast(batch, g.s), record_upcast(batch, g.x),
               u32(g.x.shape()[0]), u32(g.s.shape()[1]), width, g.scale);
}

void record_gradient_by_chunks(Batch& batch, const LoraGradientProduct& g) {
  Context& context = batch.context();
  const Tensor s = record_upcast(batch, g.s);
  const std::uint32_t rows = u32(g.x.shape()[0]), rank = u32(g.s.shape()[1]);
  const std::uint32_t width = u32(g.x.shape()[1]);
  const std::size_t columns = reduction_group(context.device(), kColumns);
  Defines defines;
  defines.set("COLUMNS", columns).set("RANKS", kRanks).set("STEPS", kSteps);
  if (g.x.type() == DType::bf16) defines.set("X_BF16");
  const std::uint32_t strips = divide_up(width, u32(static_cast<std::int64_t>(columns)));
  const std::uint32_t wanted = kGroupsPerUnit * std::max(1U, context.device().compute_units);
  const std::uint32_t chunk_rows = std::max(kSteps, divide_up(rows * strips, wanted));
  const std::uint32_t chunks = divide_up(rows, chunk_rows);
  const Tensor parts = batch.temporary({chunks, rank, width}, DType::f32, "lora gradient parts");
  Launch launch = launch_of(g);
  const std::string label = launch.label;
  launch.kernel = context.kernel("lora_linear.cl", "lora_gradient_parts", defines);
  launch.grid = {{strips * columns, chunks, divide_up(rank, kRanks)}, {columns, 1, 1}};
  batch.launch(std::move(launch), parts, s, g.x, rows, rank, width, chunk_rows);
  constexpr std::size_t kItems = 64;
  Launch sum{context.kernel("lora_linear.cl", "lora_gradient_sum", defines),
             {{round_up(std::size_t{rank} * width, kItems), 1, 1}, {kItems, 1, 1}},
             {},
             label + " sum"};
  batch.launch(std::move(sum), g.out, parts, rank * width, chunks, g.scale);
}

bool shares_launches(Context& context, const LoraGradientProduct& p) {
  return gradients_share_launches(context, p.s.shape()[1]);
}

// Whether `p` meets the requirements of record_gradients_wgmma() together with `problems`.
bool may_group(std::span<const LoraGradientProduct> problems, const LoraGradientProduct& p) {
  return std::ranges::all_of(problems, [&](const LoraGradientProduct& q) {
    const bool same_kind = p.shrunk.empty() == q.shrunk.empty();
    const bool same_scales = p.scale == q.scale && p.shrink_scale == q.shrink_scale;
    return p.s.shape() == q.s.shape() && (!same_kind || same_scales);
  });
}

}  // namespace

bool gradients_share_launches(Context& context, std::int64_t rank) {
  if (context.variant() != Variant::wgmma) return false;
  const std::uint32_t block_ranks = gradient_block_ranks(rank);
  return passed_self_test(
      context, {kLoraWgmma, fmt::format("lora_gradients_wgmma {}", block_ranks), kBf16Tolerance},
      [&](SelfTest& test) { test_gradients_wgmma(test, block_ranks); });
}

void record_gradient(Batch& batch, const LoraGradientProduct& p) {
  Context& context = batch.context();
  if (shares_launches(context, p)) return record_gradients_wgmma(batch, {&p, 1});
  if (variant_for(context, "lora_linear_cpu.cl", "lora_gradient", test_gradient) == Variant::cpu) {
    return record_gradient_cpu(batch, p);
  }
  record_gradient_by_chunks(batch, p);
  if (p.shrunk.empty()) return;  // otherwise a self-test's reference
  const Tensor shrunk = f32_result(batch, p.shrunk);
  record_gemm(batch, shrunk, p.x, p.b, {.scale = p.shrink_scale});
  record_result(batch, p.shrunk, shrunk);
}

void DeferredGradients::add(Batch& batch, const LoraGradientProduct& p) {
  if (!shares_launches(batch.context(), p)) return record_gradient(batch, p);
  waiting_.push_back(p);
}

void DeferredGradients::record(Batch& batch, std::span<const LoraGradientProduct> problems) {
  std::vector<LoraGradientProduct> all = std::exchange(waiting_, {});
  for (const LoraGradientProduct& p : problems) {
    if (shares_launches(batch.context(), p)) {
      all.push_back(p);
    } else {
      record_gradient(batch, p);
    }
  }
  for (std::span<const LoraGradientProduct> rest = all; !rest.empty();) {
    const std::size_t most = std::min(rest.size(), kMaxGradientProblems);
    std::size_t count = 1;
    while (count < most && may_group(rest.first(count), rest[count])) ++count;
    record_gradients_wgmma(batch, rest.first(count));
    rest = rest.subspan(count);
  }
}

}  // namespace clora
