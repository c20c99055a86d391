// cl/experts/grouped_gemm_skinny.cl
#include <algorithm>
#include <bit>

#include "clora/ops/quant/quant.hpp"
#include "ops/dispatch/variant_dispatch.hpp"
#include "ops/experts/grouped_gemm_kernels.hpp"
#include "ops/experts/routing_self_test.hpp"
#include "ops/gemm/gemm_kernels.hpp"
#include "ops/hopper/ptx.hpp"
#include "ops/launch_grids.hpp"
#include "ops/tuned/costs.hpp"
#include "runtime/integer_sizes.hpp"

namespace clora {
namespace {

constexpr std::uint32_t kLanes = 32;  // of a team, minimum
constexpr std::size_t kGroup = 128;
constexpr std::uint32_t kTeamRows = 2;    // of w, if there are enough columns
constexpr std::uint32_t kVec8sAhead = 4;  // that an item loads at once

struct Plan {
  std::uint32_t group = 0;  // work-items
  std::uint32_t team_rows = 1;
  std::uint32_t lanes = kLanes;
};

// As for dense products of one row, of as many columns as all active experts have.
Plan plan_of(const Context& context, const GroupedProduct& p) {
  const std::uint32_t units = std::max(1U, context.device().compute_units);
  Plan plan{.group = static_cast<std::uint32_t>(reduction_group(context.device(), kGroup))};
  const std::uint32_t columns = u32(p.columns() * p.plan.active.elements());
  if (columns >= units * costs_of<GemmSkinnyCosts>(context).team_columns)
    plan.team_rows = kTeamRows;
  const std::uint32_t useful = std::bit_ceil(std::max(1U, u32(p.k()) / 8));
  const std::uint32_t free = std::bit_floor(std::max(1U, units * plan.group / columns));
  plan.lanes = std::clamp(std::min(useful, free), kLanes, plan.group);
  return plan;
}

Defines defines_of(const GroupedProduct& p, const Plan& plan, bool with_ptx) {
  Defines defines;
  set_weight_type(defines, p.w());
  if (with_ptx) defines.set(kUsePtx);
  defines.set("X_TYPE", name_of(p.x.type())).set("Y_TYPE", name_of(p.y.type()));
  defines.set("GROUP", plan.group).set("TILE", static_cast<std::uint32_t>(kFewRowsTile));
  defines.set("TEAM_ROWS", plan.team_rows).set("AHEAD", kVec8sAhead / plan.team_rows);
  if (p.k() % 8 == 0) defines.set("VEC8");
  if (p.rows == ExpertRows::of_entries) defines.set("GATHER");
  if (p.rank() > 0) defines.set("LOW_RANK");
  if (!p.matrices.offsets.empty()) defines.set("W_OFFSETS");
  return defines;
}

void record(Batch& batch, const GroupedProduct& p, const Plan& plan, bool with_ptx) {
  const auto tiles = static_cast<std::size_t>(p.plan.slot_count() / kFewRowsTile);
  const std::size_t groups = divide_up(u32(p.columns()), plan.group / plan.lanes * plan.team_rows);
  Launch launch{
      batch.context().kernel(kGroupedSkinny, "grouped_gemm_skinny", defines_of(p, plan, with_ptx)),
      {{groups * plan.group, tiles, 1}, {plan.group, 1, 1}},
      p.cost(),
      "grouped_gemm/forward"};
  const ExpertLowRank& term = p.low_rank;
  batch.launch(std::move(launch), p.y, p.x, p.w(), or_else(p.matrices.offsets, p.x),
               or_else(term.s, p.x), or_else(term.u, p.x), or_else(term.offsets, p.x),
               p.plan.entries, p.plan.tile_experts, u32(p.columns()), u32(p.k()), u32(p.rank()),
               u32(p.plan.experts_of_row()), p.scale, term.scale, plan.lanes);
}

// The experts' matrices, or those of adapters at offsets, of which the second expert has none.
ExpertMatrices small_matrices(SelfTest& test, const GroupedProduct& p, const Shape& each,
                              std::int64_t experts) {
  const Tensor& w = p.w();
  if (p.matrices.offsets.empty())
    return {test.weights({experts * each[0], each[1]}, w.type(), w.layout())};
  std::vector<std::uint32_t> offsets;
  for (std::int64_t e = 0; e < experts; ++e) offsets.push_back(u32(e * each.elements()));
  offsets[1] = kNoMatrix;
  return {test.input({experts * each.elements()}), test.input({experts}, offsets), each};
}

// A product for the program of `p`: several groups, the last one partial, and more steps than an
// item loads at once.
void test_ptx(SelfTest& test, const GroupedProduct& p, Plan plan) {
  constexpr std::int64_t kRows = 5, kExperts = 5, kRank = 5;
  const std::int64_t steps = p.k() % 8 == 0 ? 5 * 256 : 1283;
  const std::int64_t columns = p.w().layout() == Layout::packed ? 5 * kPackedRows : 67;
  const Routing routing = self_test_routing(test, {kRows, kExperts, 2});
  const std::int64_t slots = routing.plan.slot_count();
  const std::int64_t x_rows = p.rows == ExpertRows::of_entries ? kRows : slots;
  GroupedProduct small{.y = test.output({slots, columns}, p.y.type()),
                       .x = test.input({x_rows, steps}, 1, p.x.type()),
                       .matrices = small_matrices(test, p, {columns, steps}, kExperts),
                       .plan = routing.plan,
                       .rows = p.rows,
                       .scale = 0.5F};
  if (p.rank() > 0) {
    const std::vector<std::uint32_t> offsets{0, kNoMatrix, u32(kRank * columns), 0, 0};
    small.low_rank = {test.input({slots, kRank}), test.input({2 * kRank * columns}),
                      test.input({kExperts}, offsets), 0.5F};
  }
  record(test.batch(), small, plan, !makes_reference(test.batch().context()));
}

}  // namespace

const char* grouped_few_rows_refusal(const Context&, const GroupedProduct& p) {
  const bool is_forward = !p.backward && !p.accumulates;
  return is_forward && p.plan.tile == kFewRowsTile ? nullptr
                                                   : "it is for few rows of each expert, forward";
}

void record_grouped_skinny(Batch& batch, const GroupedProduct& p) {
  record(batch, p, plan_of(batch.context(), p), false);
}

void record_grouped_skinny_ptx(Batch& batch, const GroupedProduct& p) {
  record(batch, p, plan_of(batch.context(), p), true);
}

bool grouped_skinny_ptx_passed(Context& context, const GroupedProduct& p) {
  const Plan plan = plan_of(context, p);
  const std::string options = defines_of(p, plan, true).text();
  const double tolerance = p.y.type() == DType::bf16 ? kBf16Tolerance : kF32Tolerance;
  return passed_self_test(context, {kGroupedSkinny, "grouped_gemm_skinny ptx", tolerance, options},
                          [&](SelfTest& test) { test_ptx(test, p, plan); });
}

}  // namespace clora
