// cl/experts/grouped_gemm_cpu.cl, grouped_gemm_bf16_cpu.cl and grouped_gemm_skinny_cpu.cl
#include <fmt/format.h>

#include <algorithm>

#include "clora/ops/quant/quant.hpp"
#include "ops/dispatch/cpu_vector_defines.hpp"
#include "ops/dispatch/integer_products.hpp"
#include "ops/dispatch/variant_dispatch.hpp"
#include "ops/experts/grouped_gemm_kernels.hpp"
#include "ops/experts/grouped_problem.hpp"
#include "ops/experts/routing_self_test.hpp"
#include "ops/gemm/gemm_kernels.hpp"
#include "runtime/integer_sizes.hpp"

namespace clora {
namespace {

// Groups for each compute unit, so that experts of different numbers of rows are balanced.
constexpr std::uint32_t kGroupsPerUnit = 16;
constexpr std::uint32_t kColumnsAtOnce = 16;  // of few rows
constexpr std::size_t kRowsAtOnce = 4;        // the same
// Relative to the largest output: x is rounded to 16 bits per block.
constexpr double kInt8Tolerance = 1e-3;
constexpr std::uint32_t kStepsAtOnce = 32;  // of an expanded weight: block_steps is a multiple

GroupedProblem problem_of(const GroupedProduct& p) {
  const bool gathers = p.rows == ExpertRows::of_entries;
  return {.S = u32(p.plan.slot_count()),
          .N = u32(p.columns()),
          .K = u32(p.k()),
          .R = u32(p.rank()),
          .experts = u32(p.plan.experts()),
          .experts_of_row = gathers ? u32(p.plan.experts_of_row()) : 0,
          .backward = p.backward,
          .accumulate = p.accumulates,
          .has_w_offsets = !p.matrices.offsets.empty(),
          .alpha = p.scale,
          .scale = p.low_rank.scale};
}

GroupedShare share_of(const GroupedProduct& p, const GemmTiles& tiles, std::uint32_t units) {
  const std::uint32_t panels = divide_up(u32(p.columns()), GemmTiles::kColumns);
  const std::uint32_t steps = round_up(u32(round_up(p.k(), 2) + p.rank()), kStepsAtOnce);
  const std::uint32_t block_steps = std::min(steps, tiles.block_steps);
  const std::uint32_t groups = divide_up(kGroupsPerUnit * units, u32(p.plan.active.elements()));
  return {.panels_per_group = divide_up(panels, std::min(panels, groups)),
          .panels_at_once = std::max(1U, tiles.panel_steps / block_steps),
          .block_steps = block_steps};
}

// The launch of a kernel whose groups own shares of an expert's columns; the last ones write zeros.
Launch launch_of(const GroupedProduct& p, Kernel kernel, std::uint32_t shares) {
  const auto experts = static_cast<std::size_t>(p.plan.active.elements());
  return {std::move(kernel), single_item_groups(shares, experts + 1), p.cost(),
          p.backward ? "grouped_gemm/backward" : "grouped_gemm/forward"};
}

template <class... Shares>
void launch_product(Batch& batch, Launch launch, const GroupedProduct& p, const Shares&... shares) {
  const ExpertLowRank& term = p.low_rank;
  batch.launch(std::move(launch), p.y, p.x, p.w(), or_else(p.matrices.offsets, p.x),
               or_else(term.s, p.x), or_else(term.u, p.x), or_else(term.offsets, p.x),
               p.plan.entries, p.plan.counts, p.plan.begins, p.plan.active, by_value(problem_of(p)),
               shares...);
}

constexpr std::int64_t kTestExperts = 5;
constexpr std::int64_t kTestUsed = 2;  // by a row

void record_tiles(Batch& batch, const GroupedProduct& p, bool bf16) {
  Context& context = batch.context();
  const GemmTiles tiles = bf16 ? gemm_bf16_tiles(context.device(), context.capabilities())
                               : gemm_tiles(context.device());
  const GroupedShare share = share_of(p, tiles, std::max(1U, context.device().compute_units));
  Defines defines;
  set_weight_type(defines, p.w());
  tiles.define(defines);
  if (!bf16) define_cpu_vectors(defines, context.device());
  if (bf16 && context.capabilities().amx) defines.set("AMX");
  const std::uint32_t panels = divide_up(u32(p.columns()), GemmTiles::kColumns);
  launch_product(
      batch,
      launch_of(p, context.kernel(bf16 ? kGroupedBf16Cpu : kGroupedCpu, "grouped_gemm", defines),
                divide_up(panels, share.panels_per_group)),
      p, by_value(share), LocalMemory{tiles.scratch_bytes()});
}

// Both directions.
void test_tiles(SelfTest& test, const Tensor& w) {
  constexpr std::int64_t kRows = 31, kWidth = 256;
  Batch& batch = test.batch();
  const Routing routing = self_test_routing(test, {kRows, kTestExperts, kTestUsed});
  const ExpertMatrices matrices{
      test.weights({routing.plan.experts() * kWidth, kWidth}, w.type(), w.layout())};
  const Tensor y = test.output({routing.plan.slot_count(), kWidth});
  const Tensor dx = test.output(y.shape());
  record_grouped_gemm(batch, y, test.input({kRows, kWidth}), ExpertRows::of_entries, matrices,
                      routing.plan);
  record_grouped_gemm_backward(batch, dx, test.input(y.shape()), matrices, routing.plan,
                               Accumulate::no);
}

std::size_t integer_scratch(const GroupedProduct& p) { return kRowsAtOnce * int8_row_bytes(p.k()); }

void record_skinny(Batch& batch, const GroupedProduct& p, IntegerDots dots) {
  Context& context = batch.context();
  Defines defines;
  set_weight_type(defines, p.w());
  defines.set("ROWS_AT_ONCE", kColumnsAtOnce);
  define_cpu_vectors(defines, context.device());
  const bool has_integers = dots != IntegerDots::none;
  if (has_integers) defines.set("INTEGERS");
  define_integer_dots(defines, dots);
  const std::uint32_t parts = divide_up(u32(p.columns()), kColumnsAtOnce);
  const std::uint32_t units = std::max(1U, context.device().compute_units);
  const std::uint32_t wanted = divide_up(kGroupsPerUnit * units, u32(p.plan.active.elements()));
  const std::uint32_t of_group = divide_up(parts, std::min(parts, wanted));
  launch_product(batch,
                 launch_of(p, context.kernel(kGroupedSkinnyCpu, "grouped_gemm_skinny", defines),
                           divide_up(parts, of_group)),
                 p, of_group * kColumnsAtOnce, LocalMemory{has_integers ? integer_scratch(p) : 1});
}

// Experts of one row, of several, and of more than are multiplied at once.
void test_skinny(SelfTest& test, const Tensor& w) {
  constexpr std::int64_t kRows = 9, kWidth = 256;
  const Routing routing = self_test_routing(test, {kRows, kTestExperts, kTestUsed});
  const ExpertMatrices matrices{
      test.weights({routing.plan.experts() * kWidth, kWidth}, w.type(), w.layout())};
  record_grouped_gemm(test.batch(), test.output({routing.plan.slot_count(), kWidth}),
                      test.input({kRows, kWidth}), ExpertRows::of_entries, matrices, routing.plan);
}

}  // namespace

void record_grouped_cpu(Batch& batch, const GroupedProduct& p) { record_tiles(batch, p, false); }

void record_grouped_bf16_cpu(Batch& batch, const GroupedProduct& p) {
  record_tiles(batch, p, true);
}

bool grouped_cpu_passed(Context& context, const GroupedProduct& p) {
  const std::string name = fmt::format("grouped_gemm {}", weight_name(p.w()));
  return passed_self_test(context, {kGroupedCpu, name},
                          [&](SelfTest& test) { test_tiles(test, p.w()); });
}

bool grouped_bf16_cpu_passed(Context& context, const GroupedProduct& p) {
  const std::string name = fmt::format(
      "grouped_gemm_{} {}", context.capabilities().amx ? "amx" : "avx512_bf16", weight_name(p.w()));
  return passed_self_test(context, {kGroupedBf16Cpu, name, kBf16Tolerance},
                          [&](SelfTest& test) { test_tiles(test, p.w()); });
}

void record_grouped_skinny_cpu(Batch& batch, const GroupedProduct& p) {
  record_skinny(batch, p, IntegerDots::none);
}

void record_grouped_skinny_int8(Batch& batch, const GroupedProduct& p) {
  record_skinny(batch, p, integer_products(batch.context()));
}

bool grouped_skinny_cpu_passed(Context& context, const GroupedProduct& p) {
  const std::string name = fmt::format("grouped_gemm_skinny {}", weight_name(p.w()));
  return passed_self_test(context, {kGroupedSkinnyCpu, name},
                          [&](SelfTest& test) { test_skinny(test, p.w()); });
}

const char* grouped_skinny_int8_refusal(const Context& context, const GroupedProduct& p) {
  const Tensor& w = p.w();
  if (!p.matrices.offsets.empty() || w.layout() != Layout::packed || !is_quantised(w.type()))
    return "it reads packed quantised weights";
  if (integer_products(context) == IntegerDots::none)
    return "it needs dot products of bytes, and precision auto";
  const bool fits = integer_scratch(p) <= context.device().local_memory_bytes;
  return fits ? nullptr : "rows of x exceed the local memory";
}

bool grouped_skinny_int8_passed(Context& context, const GroupedProduct& p) {
  const std::string name = fmt::format("grouped_gemm_skinny_int8 {}", weight_name(p.w()));
  return passed_self_test(context, {kGroupedSkinnyCpu, name, kInt8Tolerance},
                          [&](SelfTest& test) { test_skinny(test, p.w()); });
}

}  // namespace clora
