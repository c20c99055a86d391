#include "ops/lora_linear/lora_gradient_hopper.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <vector>

#include "ops/dispatch/variant_dispatch.hpp"
#include "ops/hopper/tensor_maps.hpp"
#include "ops/launch_grids.hpp"
#include "runtime/integer_sizes.hpp"

namespace clora {
namespace {

// cl/lora_linear/lora_linear_wgmma.cl
constexpr std::uint32_t kBoxRows = 64;
constexpr std::uint32_t kStripColumns = 256;
constexpr std::uint32_t kFewRanks = 16;
constexpr std::uint32_t kBlockRanks = 64;
constexpr std::size_t kItems = 384;
constexpr std::int64_t kQuad = 4;
constexpr std::uint32_t kSumItems = 256;
// Work-groups of the sums per compute unit: several hide the latency of each other's reads.
constexpr std::uint32_t kSumGroupsOfUnit = 8;

using Problems = std::span<const LoraGradientProduct>;

std::uint32_t columns_of(const LoraGradientProduct& p) { return u32(p.x.shape()[1]); }
std::uint32_t strips_of(const LoraGradientProduct& p) {
  return divide_up(columns_of(p), kStripColumns);
}

// The sizes of all problems.
struct Plan {
  std::uint32_t rows, rank, block_ranks, rank_blocks;
  std::uint32_t strips = 0;
  std::uint32_t groups;
  std::uint32_t sum_groups;
  LoraChunks cut;

  Plan(const Context& context, Problems problems)
      : rows(u32(problems.front().x.shape()[0])),
        rank(u32(problems.front().s.shape()[1])),
        block_ranks(gradient_block_ranks(rank)),
        rank_blocks(divide_up(rank, block_ranks)) {
    for (const LoraGradientProduct& p : problems) strips += strips_of(p);
    const std::uint32_t units = std::max(1U, context.device().compute_units);
    cut = lora_chunks(rows, strips, rank_blocks, units);
    groups = std::min(units, strips * rank_blocks * cut.chunks);
    sum_groups = std::min(units * kSumGroupsOfUnit,
                          u32(divide_up(quads(problems), std::int64_t{kSumItems})));
  }
  // Vectors of four floats of all results; the rows of shrunk results are padded.
  std::int64_t quads(Problems problems) const {
    std::int64_t all = 0;
    for (const LoraGradientProduct& p : problems) {
      all += parts_shape(p)[1];
      if (!p.shrunk.empty()) all += std::int64_t{rows} * rank_blocks * block_ranks / kQuad;
    }
    return all;
  }
  Shape parts_shape(const LoraGradientProduct& p) const {
    const std::int64_t floats = std::int64_t{rank} * columns_of(p);
    return {cut.chunks, std::int64_t{divide_up(floats, kQuad)}, kQuad};
  }
  Shape shrunk_parts_shape(const LoraGradientProduct& p) const {
    return {strips_of(p), rows, std::int64_t{rank_blocks} * block_ranks};
  }
};

Cost cost_of(Problems problems) {
  Cost cost;
  for (const LoraGradientProduct& p : problems) {
    const double flops = 2.0 * static_cast<double>(p.x.elements() * p.s.shape()[1]);
    cost.flops += p.shrunk.empty() ? flops : 2 * flops;
    cost.bytes += static_cast<double>(p.x.bytes() + p.s.bytes() + 2 * p.out.bytes());
  }
  return cost;
}

Kernel kernel_of(Context& context, const Plan& plan, std::string_view function) {
  Defines defines;
  defines.set("RANKS", plan.block_ranks);
  return context.kernel(kLoraWgmma, function, defines);
}

// x, s and b of each problem (s stands in for b if there is no shrink), then its results and their
// partial sums.
TensorTable table_of(Batch& batch, const Plan& plan, Problems problems) {
  TensorTable table;
  for (const LoraGradientProduct& p : problems) {
    const bool shrinks = !p.shrunk.empty();
    const Bf16Rows x = record_bf16_rows(batch, p.x), s = record_bf16_rows(batch, p.s);
    const Bf16Rows b = shrinks ? record_bf16_rows(batch, p.b) : s;
    table.matrices.insert(table.matrices.end(),
                          {{x, kBoxRows}, {s, kBoxRows}, {b, plan.block_ranks}});
    const Tensor parts = batch.temporary(plan.parts_shape(p), DType::f32, "lora gradient parts");
    const Tensor shrunk_parts =
        shrinks ? batch.temporary(plan.shrunk_parts_shape(p), DType::f32, "lora shrunk parts")
                : Tensor();
    table.tensors.insert(table.tensors.end(), {p.out, p.shrunk, parts, shrunk_parts});
  }
  return table;
}

// The first problem with, or without, a shrink; any problem if there is none.
const LoraGradientProduct& one_that(bool shrinks, Problems problems) {
  const auto found = std::ranges::find(
      problems, shrinks, [](const LoraGradientProduct& p) { return !p.shrunk.empty(); });
  return found == problems.end() ? problems.front() : *found;
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

}  // namespace

bool lora_gradient_wgmma_passed(Context& context, const LoraGradientProduct& p) {
  const std::uint32_t block_ranks = gradient_block_ranks(p.s.shape()[1]);
  return passed_self_test(
      context, {kLoraWgmma, fmt::format("lora_gradients_wgmma {}", block_ranks), kBf16Tolerance},
      [&](SelfTest& test) { test_gradients_wgmma(test, block_ranks); });
}

bool lora_gradients_can_join(std::span<const LoraGradientProduct> problems,
                             const LoraGradientProduct& p) {
  return std::ranges::all_of(problems, [&](const LoraGradientProduct& q) {
    const bool same_kind = p.shrunk.empty() == q.shrunk.empty();
    const bool same_scales = p.scale == q.scale && p.shrink_scale == q.shrink_scale;
    return p.s.shape() == q.s.shape() && (!same_kind || same_scales);
  });
}

std::uint32_t gradient_block_ranks(std::int64_t rank) {
  return rank <= std::int64_t{kFewRanks} ? kFewRanks : kBlockRanks;
}

LoraChunks lora_chunks(std::uint32_t rows, std::uint32_t strips, std::uint32_t rank_blocks,
                       std::uint32_t units) {
  const std::uint32_t wanted = std::max(1U, units / (strips * rank_blocks));
  const std::uint32_t boxes = divide_up(rows, kBoxRows);
  const std::uint32_t chunk_boxes = divide_up(boxes, wanted);
  return {divide_up(boxes, chunk_boxes), chunk_boxes};
}

void record_gradients_wgmma(Batch& batch, std::span<const LoraGradientProduct> problems) {
  Context& context = batch.context();
  const Plan plan(context, problems);
  const TensorTable table = table_of(batch, plan, problems);
  const Tensor prepared = prepare_tensor_table(batch, table, "lora_linear/table");
  const std::uint32_t count = u32(std::ssize(problems));
  Launch products{kernel_of(context, plan, "lora_gradients_wgmma"), groups_of(kItems, plan.groups),
                  cost_of(problems), "lora_linear/gradients", table.uses()};
  batch.launch(std::move(products), prepared, count, plan.rows, plan.rank, plan.strips,
               plan.cut.chunks, plan.cut.chunk_boxes, plan.rank_blocks);
  Launch sums{kernel_of(context, plan, "lora_gradient_sums_wgmma"),
              groups_of(kSumItems, plan.sum_groups),
              {},
              "lora_linear/gradient sums",
              TensorTable{.tensors = table.tensors}.uses()};
  const LoraGradientProduct& shrinking = one_that(true, problems);
  batch.launch(std::move(sums), prepared, count, plan.rows, plan.rank, plan.cut.chunks,
               plan.rank_blocks, one_that(false, problems).scale, shrinking.scale,
               shrinking.shrink_scale);
}

}  // namespace clora
