#include "ops/lora_linear/lora_gradient_matrix.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "ops/dispatch/variant_dispatch.hpp"
#include "ops/hopper/tensor_maps.hpp"
#include "ops/launch_grids.hpp"
#include "runtime/integer_sizes.hpp"

namespace clora {
namespace {

constexpr std::int64_t kQuad = 4;
constexpr std::uint32_t kSumItems = 256;
// Work-groups of the sums per compute unit: several hide the latency of each other's reads.
constexpr std::uint32_t kSumGroupsOfUnit = 8;

using Problems = std::span<const LoraGradientProduct>;
using Columns = std::array<std::uint32_t, kMaxMatrixGradients>;

std::uint32_t columns_of(const LoraGradientProduct& p) { return u32(p.x.shape()[1]); }

// The sizes of all problems.
struct Plan {
  LoraGradientTiles tiles;
  std::uint32_t rows, rank, rank_blocks;
  std::uint32_t strips = 0;
  std::uint32_t sum_groups;
  LoraMatrixChunks cut;
  Columns columns{};

  Plan(const Context& context, Problems problems, const LoraGradientTiles& of)
      : tiles(of),
        rows(u32(problems.front().x.shape()[0])),
        rank(u32(problems.front().s.shape()[1])),
        rank_blocks(divide_up(rank, tiles.ranks)) {
    for (std::size_t i = 0; i < problems.size(); ++i) {
      columns[i] = columns_of(problems[i]);
      strips += strips_of(problems[i]);
    }
    const std::uint32_t units = std::max(1U, context.device().compute_units);
    cut = lora_matrix_chunks(divide_up(rows, tiles.stage_rows), strips * rank_blocks, units);
    sum_groups = std::min(units * kSumGroupsOfUnit,
                          u32(divide_up(quads(problems), std::int64_t{kSumItems})));
  }
  std::uint32_t strips_of(const LoraGradientProduct& p) const {
    return divide_up(columns_of(p), tiles.strip);
  }
  // Vectors of four floats of all results; the rows of shrunk results are padded.
  std::int64_t quads(Problems problems) const {
    std::int64_t all = 0;
    for (const LoraGradientProduct& p : problems) {
      all += parts_shape(p)[1];
      if (!p.shrunk.empty()) all += std::int64_t{rows} * rank_blocks * tiles.ranks / kQuad;
    }
    return all;
  }
  Shape parts_shape(const LoraGradientProduct& p) const {
    const std::int64_t floats = std::int64_t{rank} * columns_of(p);
    return {cut.chunks, std::int64_t{divide_up(floats, kQuad)}, kQuad};
  }
  Shape shrunk_parts_shape(const LoraGradientProduct& p) const {
    return {strips_of(p), rows, std::int64_t{rank_blocks} * tiles.ranks};
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

Defines defines_of(const LoraGradientTiles& tiles, MatrixUnitChoice unit) {
  Defines defines;
  define_matrix_unit(defines, unit);
  return defines.set("RANKS", tiles.ranks)
      .set("STRIP", tiles.strip)
      .set("SUBGROUPS", tiles.subgroups)
      .set("STAGE_ROWS", tiles.stage_rows);
}

// x, s and b of each problem (s stands in for b if there is no shrink), its results and their
// partial sums.
TensorTable table_of(Batch& batch, const Plan& plan, Problems problems) {
  TensorTable table;
  for (const LoraGradientProduct& p : problems) {
    const bool shrinks = !p.shrunk.empty();
    const Tensor x = record_bf16_rows(batch, p.x).data, s = record_bf16_rows(batch, p.s).data;
    const Tensor b = shrinks ? record_bf16_rows(batch, p.b).data : s;
    const Tensor parts = batch.temporary(plan.parts_shape(p), DType::f32, "lora gradient parts");
    const Tensor shrunk_parts =
        shrinks ? batch.temporary(plan.shrunk_parts_shape(p), DType::f32, "lora shrunk parts")
                : Tensor();
    table.tensors.insert(table.tensors.end(), {x, s, b, p.out, p.shrunk, parts, shrunk_parts});
  }
  return table;
}

// The first problem with, or without, a shrink; any problem if there is none.
const LoraGradientProduct& one_that(bool shrinks, Problems problems) {
  const auto found = std::ranges::find(
      problems, shrinks, [](const LoraGradientProduct& p) { return !p.shrunk.empty(); });
  return found == problems.end() ? problems.front() : *found;
}

// Several strips of columns, the last one partial; several chunks; two blocks if there are many
// ranks; one problem, and several with and without a shrink.
void test_gradients(SelfTest& test, MatrixUnit unit, const LoraGradientTiles& tiles) {
  constexpr std::int64_t kRows = 2900;
  const std::int64_t rank = tiles.ranks - 9;
  const auto problem = [&](std::int64_t ranks, std::int64_t width, bool shrinks) {
    LoraGradientProduct p{.out = test.changed(test.input({ranks, width})),
                          .s = test.input({kRows, ranks}, 1, DType::bf16),
                          .x = test.input({kRows, width}, 1, DType::bf16),
                          .scale = 0.5F};
    if (!shrinks) return p;
    p.shrunk = test.output({kRows, ranks}, DType::bf16);
    p.b = test.input({ranks, width});
    p.shrink_scale = 0.25F;
    return p;
  };
  DeferredGradients deferred;
  const bool is_many = tiles.ranks == lora_gradient_tiles(tiles.ranks + 1, unit).ranks;
  deferred.record(test.batch(), std::array{problem(is_many ? 70 : rank, 1100, true)});
  deferred.add(test.batch(), problem(rank, 600, false));
  deferred.add(test.batch(), problem(rank, 40, false));
  deferred.record(test.batch(), std::array{problem(rank, 136, true), problem(rank, 530, true)});
}

}  // namespace

// Except on NVIDIA's GPUs, two stages fit 64 KiB of local memory, and no registers are spilled
// (`clc stats`).
LoraGradientTiles lora_gradient_tiles(std::int64_t rank, MatrixUnit unit) {
  const std::uint32_t ranks = rank <= 16 ? 16 : rank <= 32 ? 32 : 64;
  switch (unit) {
    case MatrixUnit::mfma:
    case MatrixUnit::xmx:
      return {.ranks = ranks, .strip = 128};
    case MatrixUnit::wmma_gfx11:
      return {.ranks = 16, .strip = 128};
    case MatrixUnit::wmma_gfx12:
      return {.ranks = std::min(ranks, 32U), .strip = 128};
    default:
      return {.ranks = ranks};
  }
}

LoraMatrixChunks lora_matrix_chunks(std::uint32_t row_stages, std::uint32_t strips_and_blocks,
                                    std::uint32_t units) {
  constexpr std::uint32_t kGroupsOfUnit = 2;
  constexpr std::uint32_t kMinStages = 4;
  const std::uint32_t wanted = std::max(1U, kGroupsOfUnit * units / strips_and_blocks);
  const std::uint32_t stages =
      std::max(divide_up(row_stages, wanted), std::min(row_stages, kMinStages));
  return {divide_up(row_stages, stages), stages};
}

const char* lora_gradient_matrix_refusal(const Context& context, const LoraGradientProduct&) {
  return context.capabilities().ptx ? nullptr : "it reads tensors by their addresses";
}

bool lora_gradient_matrix_passed(Context& context, const LoraGradientProduct& p) {
  const MatrixUnit unit = matrix_unit_of(context).unit;
  const LoraGradientTiles tiles = lora_gradient_tiles(p.s.shape()[1], unit);
  return passed_self_test(
      context, {kLoraMatrix, fmt::format("lora_gradients_matrix {}", tiles.ranks), kBf16Tolerance},
      [&](SelfTest& test) { test_gradients(test, unit, tiles); });
}

void record_gradients_matrix_with(Batch& batch, Problems problems, MatrixUnitChoice unit,
                                  const LoraGradientTiles& tiles) {
  Context& context = batch.context();
  const Plan plan(context, problems, tiles);
  const TensorTable table = table_of(batch, plan, problems);
  const Tensor prepared = prepare_tensor_table(batch, table, "lora_linear/table");
  const Defines defines = defines_of(tiles, unit);
  Launch products{context.kernel(kLoraMatrix, "lora_gradients_matrix", defines),
                  groups_of(std::size_t{tiles.subgroups} * matrix_unit_lanes(unit),
                            std::size_t{plan.strips} * plan.rank_blocks * plan.cut.chunks),
                  cost_of(problems), "lora_linear/gradients", table.uses()};
  batch.launch(std::move(products), prepared, by_value(plan.columns), plan.rows, plan.rank,
               plan.strips, plan.cut.chunks, plan.cut.stages, plan.rank_blocks);
  Launch sums{context.kernel(kLoraMatrix, "lora_gradient_sums_matrix", defines),
              groups_of(kSumItems, plan.sum_groups),
              {},
              "lora_linear/gradient sums",
              table.uses()};
  const LoraGradientProduct& shrinking = one_that(true, problems);
  batch.launch(std::move(sums), prepared, by_value(plan.columns), u32(std::ssize(problems)),
               plan.rows, plan.rank, plan.cut.chunks, plan.rank_blocks,
               one_that(false, problems).scale, shrinking.scale, shrinking.shrink_scale);
}

void record_gradients_matrix(Batch& batch, Problems problems) {
  const MatrixUnitChoice unit = matrix_unit_of(batch.context());
  record_gradients_matrix_with(batch, problems, unit,
                               lora_gradient_tiles(problems.front().s.shape()[1], unit.unit));
}

}  // namespace clora
