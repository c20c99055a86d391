// cl/gemm/gemm_skinny.cl: the assignment of skinny products to teams of work-items.
#include <algorithm>
#include <bit>

#include "clora/ops/quant/quant.hpp"
#include "ops/dispatch/variant_dispatch.hpp"
#include "ops/gemm/gemm_kernels.hpp"
#include "ops/hopper/ptx.hpp"
#include "ops/hopper/tensor_maps.hpp"
#include "ops/launch_grids.hpp"
#include "ops/tuned/costs.hpp"
#include "runtime/integer_sizes.hpp"

namespace clora {
namespace {

constexpr std::uint32_t kLanes = 32;  // of a team, minimum
constexpr std::size_t kGroup = 128;
// If each group fuses the shrink, there are no more groups than compute units, so each needs many
// loads in flight: as many items as registers allow.
constexpr std::size_t kShrinkGroup = 512;
constexpr std::size_t kShrinkGroupOfManyRows = 256;
constexpr std::int64_t kManyRows = 3;
// Rows of w per team, if each unit has enough columns to balance the teams. bf16 products of one
// row on an H200: 151936 x 896 takes 76 us (100 with one row per team, 79 with four), 18944 x 3584
// takes 37 (37, 37), 3584 x 18944 takes 57 (43, 86).
constexpr std::uint32_t kTeamRows = 2;
constexpr std::uint32_t kVec8sAhead = 4;  // that an item prefetches, if registers allow
// Local memory of a fused shrink.
constexpr std::size_t kShrinkBytes = 16 << 10U;

struct Plan {
  std::uint32_t group = 0;      // work-items
  std::uint32_t rows = 1;       // of x: the kernel's ROWS
  std::uint32_t team_rows = 1;  // of w
  std::uint32_t lanes = kLanes;
  std::uint32_t groups = 1;

  // Local memory of the kernels without PTX, next to that of a fused shrink.
  std::size_t scratch_bytes() const { return sizeof(float) * group * rows * team_rows; }
  std::uint32_t ahead() const { return rows > kTeamRows ? 1 : kVec8sAhead / team_rows; }
};

std::size_t max_items(const GemmProduct& p) {
  if (!p.has_shrink()) return kGroup;
  return p.rows() < kManyRows ? kShrinkGroup : kShrinkGroupOfManyRows;
}

// The kernels' local_s.
LocalMemory local_s(const GemmProduct& p) {
  const std::int64_t values = p.has_shrink() ? p.rows() * p.rank() : 1;
  return {static_cast<std::size_t>(values) * sizeof(float)};
}

Plan plan_of(const Context& context, const GemmProduct& p) {
  const std::uint32_t units = std::max(1U, context.device().compute_units);
  Plan plan{.group = static_cast<std::uint32_t>(reduction_group(context.device(), max_items(p))),
            .rows = std::bit_ceil(u32(p.rows()))};
  const std::uint32_t columns = u32(p.columns());
  const GemmSkinnyCosts& costs = costs_of<GemmSkinnyCosts>(context);
  if (columns >= units * costs.team_columns) plan.team_rows = kTeamRows;
  const auto fits = [&] {
    return plan.scratch_bytes() + local_s(p).bytes <= context.device().local_memory_bytes;
  };
  if (!fits()) plan.team_rows = 1;
  while (!fits() && plan.group > kLanes) plan.group /= 2;
  if (plan.rows == 1) {  // w may have few rows as well: more items for each
    const std::uint32_t useful = std::bit_ceil(std::max(1U, u32(p.k()) / 8));
    const std::uint32_t free = std::bit_floor(std::max(1U, units * plan.group / columns));
    plan.lanes = std::clamp(std::min(useful, free), kLanes, plan.group);
  }
  plan.groups = divide_up(columns, plan.group / plan.lanes * plan.team_rows);
  return plan;
}

std::uint32_t groups_with_shrink(const Context& context, const Plan& plan) {
  return std::min(plan.groups, std::max(1U, context.device().compute_units));
}

// with_ptx: the program of record_gemm_skinny_by_address().
Defines defines_of(const GemmProduct& p, const Plan& plan, bool with_ptx) {
  Defines defines;
  set_weight_type(defines, p.w);
  if (with_ptx) defines.set(kUsePtx);
  defines.set("GROUP", plan.group).set("ROWS", plan.rows).set("TEAM_ROWS", plan.team_rows);
  defines.set("AHEAD", plan.ahead());
  if (p.k() % 8 == 0) defines.set("VEC8");
  if (p.has_shrink()) defines.set("FUSE_SHRINK");
  defines.set("X_TYPE", name_of(p.x.type())).set("Y_TYPE", name_of(p.y.type()));
  define_epilogue(defines, p);
  return defines;
}

Launch launch_of(Context& context, const GemmProduct& p, const Plan& plan,
                 std::string_view function, bool with_ptx) {
  const std::uint32_t groups = p.has_shrink() ? groups_with_shrink(context, plan) : plan.groups;
  return {context.kernel(kGemmSkinnyPortable, function, defines_of(p, plan, with_ptx)),
          groups_of(plan.group, groups), p.cost(), "gemm/forward"};
}

void record_by_address(Batch& batch, const GemmProduct& p, const Plan& plan, bool with_ptx) {
  const auto tensors = gemm_tensors(p);
  const TensorTable table{.tensors = {tensors.begin(), tensors.end()}};
  const Tensor addresses = prepare_tensor_table(batch, table, "gemm/addresses");
  Launch launch = launch_of(batch.context(), p, plan, "gemm_skinny_at", with_ptx);
  launch.uses = table.uses();
  batch.launch(std::move(launch), addresses, by_value(p.problem()), plan.lanes, local_s(p));
}

void record_by_arguments(Batch& batch, const GemmProduct& p) {
  const Plan plan = plan_of(batch.context(), p);
  batch.record(launch_of(batch.context(), p, plan, "gemm_skinny", false),
               gemm_arguments_of_options(p, GemmShrink::may_be_fused,
                                         {by_value(p.problem()), plan.lanes, local_s(p)}));
}

LowRankTerm small_term_like(SelfTest& test, const GemmProduct& p, const GemmProduct& small) {
  constexpr std::int64_t kRank = 5, kAdapters = 2;
  const std::int64_t columns = small.columns();
  if (p.has_row_groups()) {
    const std::array group{RowGroup{0, p.rows(), 1, 3}};
    return {.s = test.input({p.rows(), kRank}),
            .u = test.input({kAdapters, kRank, columns}),
            .scale = 0.5F,
            .row_groups = test.input({p.rows(), kRowGroupWords}, row_group_table(p.rows(), group))};
  }
  if (!p.has_shrink()) {
    return {test.input({p.rows(), kRank}), test.input({kRank, columns}), 0.5F};
  }
  return {test.output({p.rows(), kRank}), test.input({kRank, columns}), 0.5F,
          test.input({kRank, small.k()}), 0.5F};
}

// A small product for the program of `p`: several iterations per group, the last ones partial, and
// more K steps than an item prefetches.
GemmProduct small_like(SelfTest& test, const GemmProduct& p) {
  const std::int64_t steps = p.k() % 8 == 0 ? 5 * 256 : 1283;
  const std::int64_t columns = p.w.layout() == Layout::packed ? 5 * kPackedRows : 67;
  const bool is_bf16 = p.w.type() == DType::bf16 && p.w.layout() == Layout::plain;
  GemmProduct small{.y = test.output({p.rows(), columns}, p.y.type()),
                    .x = test.input({p.rows(), steps}, 1, p.x.type()),
                    .w = is_bf16 ? test.input({columns, steps}, 1, DType::bf16)
                                 : test.weights({columns, steps}, p.w.type(), p.w.layout()),
                    .epilogue = {.bias = test.input({columns}),
                                 .residual = test.input({p.rows(), columns}, 1, p.y.type())}};
  if (!p.epilogue.column_scale.empty()) small.epilogue.column_scale = test.input({columns});
  small.epilogue.low_rank = small_term_like(test, p, small);
  return small;
}

// Tests teams with the lanes of `plan`, and with the minimum, at which items prefetch.
void test_ptx(SelfTest& test, const GemmProduct& p, Plan plan) {
  const bool as_reference = makes_reference(test.batch().context());
  for (const std::uint32_t lanes : {plan.lanes, kLanes}) {
    const GemmProduct small = small_like(test, p);
    plan.lanes = lanes;
    plan.groups = divide_up(u32(small.columns()), plan.group / lanes * plan.team_rows);
    if (as_reference) {
      record_by_arguments(test.batch(), small);
    } else {
      record_by_address(test.batch(), small, plan, true);
    }
  }
}

// Whether the product's program with PTX has passed its self-test.
bool ptx_passed(Context& context, const GemmProduct& p, const Plan& plan) {
  const std::string options = defines_of(p, plan, true).text();
  const double tolerance = p.y.type() == DType::bf16 ? kBf16Tolerance : kF32Tolerance;
  return passed_self_test(context, {kGemmSkinnyPortable, "gemm_skinny ptx", tolerance, options},
                          [&](SelfTest& test) { test_ptx(test, p, plan); });
}

}  // namespace

bool gemm_skinny_fuses_shrink(const Context& context, const GemmProduct& p) {
  const std::uint32_t groups = groups_with_shrink(context, plan_of(context, p));
  const std::int64_t values = p.rows() * p.rank();
  return static_cast<double>(values * p.k()) * groups <=
             costs_of<GemmSkinnyCosts>(context).shrink_products &&
         static_cast<std::size_t>(values) * sizeof(float) <= kShrinkBytes;
}

void record_gemm_skinny_by_address(Batch& batch, const GemmProduct& p) {
  record_by_address(batch, p, plan_of(batch.context(), p), uses_ptx(batch.context()));
}

bool gemm_skinny_ptx_passed(Context& context, const GemmProduct& p) {
  GemmProduct launched = p;
  if (p.has_shrink() && !gemm_skinny_fuses_shrink(context, p)) launched.epilogue.low_rank.a = {};
  return ptx_passed(context, launched, plan_of(context, launched));
}

void record_gemm_skinny_ptx(Batch& batch, const GemmProduct& p) {
  record_by_address(batch, p, plan_of(batch.context(), p), true);
}

void record_gemm_skinny_portable(Batch& batch, const GemmProduct& p) {
  record_by_arguments(batch, p);
}

}  // namespace clora
