// cl/gemm_few_rows.cl: how products of few rows are cut into teams of work-items.
#include <algorithm>
#include <array>
#include <bit>

#include "ops/gemm_kernels.hpp"
#include "ops/group_meeting.hpp"
#include "ops/launch_shape.hpp"
#include "ops/quant.hpp"
#include "ops/reduction_grid.hpp"
#include "ops/tensor_maps.hpp"

namespace clora {
namespace {

constexpr std::uint32_t kLanes = 32;  // of a team, at least
constexpr std::size_t kGroup = 128;
// Where each makes s there are no more groups than units, so that each has to have much on its way:
// many items, while they have registers enough.
constexpr std::size_t kMakersGroup = 512;
constexpr std::size_t kMakersGroupOfManyRows = 256;
constexpr std::int64_t kManyRows = 3;
// Of w, where there are so many for each unit that teams are even. bf16 products of one row on an
// H200: 151936 x 896 in 76 us (one row: 100, four: 79), 18944 x 3584 in 37 (37, 37), 3584 x 18944
// in 57 (43, 86).
constexpr std::uint32_t kTeamRows = 2;
constexpr std::uint32_t kColumnsPerUnit = 64;
constexpr std::uint32_t kOctets = 4;  // that an item loads ahead, where registers allow
// Each group makes s anew: up to so many products and so much local memory in all that is faster
// than a launch before.
constexpr double kProductsOfS = 4.5e6;
constexpr std::size_t kBytesOfS = 16 << 10U;

struct Plan {
  std::uint32_t group = 0;      // items
  std::uint32_t rows = 1;       // of x, ROWS
  std::uint32_t team_rows = 1;  // of w
  std::uint32_t lanes = kLanes;
  std::uint32_t groups = 1;

  std::uint32_t ahead() const { return rows > kTeamRows ? 1 : kOctets / team_rows; }
};

std::size_t most_items(const GemmProduct& p) {
  if (!p.makes_s()) return kGroup;
  return p.rows() < kManyRows ? kMakersGroup : kMakersGroupOfManyRows;
}

Plan plan_of(const Context& context, const GemmProduct& p) {
  const std::uint32_t units = std::max(1U, context.device().compute_units);
  Plan plan{.group = static_cast<std::uint32_t>(reduction_group(context.device(), most_items(p))),
            .rows = std::bit_ceil(u32(p.rows()))};
  const std::uint32_t columns = u32(p.columns());
  if (columns >= units * kColumnsPerUnit) plan.team_rows = kTeamRows;
  if (plan.rows == 1) {  // few rows of w as well: more items for each
    const std::uint32_t useful = std::bit_ceil(std::max(1U, u32(p.steps()) / 8));
    const std::uint32_t free = std::bit_floor(std::max(1U, units * plan.group / columns));
    plan.lanes = std::clamp(std::min(useful, free), kLanes, plan.group);
  }
  plan.groups = divide_up(columns, plan.group / plan.lanes * plan.team_rows);
  return plan;
}

std::uint32_t groups_that_make_s(const Context& context, const Plan& plan) {
  return std::min(plan.groups, std::max(1U, context.device().compute_units));
}

Defines defines_of(const Context& context, const GemmProduct& p, const Plan& plan) {
  Defines defines;
  set_weight_type(defines, p.w);
  set_warps(defines, context.device());
  defines.set("GROUP", plan.group).set("ROWS", plan.rows).set("TEAM_ROWS", plan.team_rows);
  defines.set("AHEAD", plan.ahead());
  if (p.steps() % 8 == 0) defines.set("OCTETS");
  if (p.makes_s()) defines.set("MAKES_S");
  if (p.x.type() == DType::bf16) defines.set("X_BF16");
  if (p.y.type() == DType::bf16) defines.set("Y_BF16");
  return defines;
}

// In the order of the kernels' arguments; any other for one that is absent.
using Tensors = std::array<Tensor, 8>;
Tensors tensors_of(const GemmProduct& p) {
  return {p.y,
          p.x,
          p.w,
          or_else(p.start, p.y),
          or_else(p.bias, p.x),
          or_else(p.low_rank.s, p.x),
          or_else(p.low_rank.u, p.x),
          or_else(p.low_rank.a, p.x)};
}

std::vector<Argument> with_tensors(std::vector<Argument> arguments, const Tensors& tensors) {
  for (const Tensor& tensor : tensors) arguments.emplace_back(tensor);
  return arguments;
}

std::vector<Argument> with_numbers(std::vector<Argument> arguments, const Context& context,
                                   const GemmProduct& p) {
  const std::int64_t values = p.makes_s() ? p.rows() * p.rank() : 1;
  for (const std::uint32_t size :
       {u32(p.rows()), u32(p.columns()), u32(p.steps()), u32(p.rank())}) {
    arguments.emplace_back(size);
  }
  arguments.emplace_back(p.alpha);
  arguments.emplace_back(p.low_rank.scale);
  arguments.emplace_back(std::uint32_t{!p.start.empty()});
  arguments.emplace_back(std::uint32_t{!p.bias.empty()});
  arguments.emplace_back(plan_of(context, p).lanes);
  arguments.emplace_back(p.low_rank.a_scale);
  arguments.emplace_back(LocalMemory{static_cast<std::size_t>(values) * sizeof(float)});
  return arguments;
}

Launch launch_of(Context& context, const GemmProduct& p, std::string_view function) {
  const Plan plan = plan_of(context, p);
  const std::uint32_t groups = p.makes_s() ? groups_that_make_s(context, plan) : plan.groups;
  return {context.kernel(kGemmFewRowsPortable, function, defines_of(context, p, plan)),
          groups_of(plan.group, groups), p.cost(), "gemm/forward"};
}

}  // namespace

bool gemm_few_rows_make_s(const Context& context, const GemmProduct& p) {
  const std::uint32_t groups = groups_that_make_s(context, plan_of(context, p));
  const std::int64_t values = p.rows() * p.rank();
  return static_cast<double>(values * p.steps()) * groups <= kProductsOfS &&
         static_cast<std::size_t>(values) * sizeof(float) <= kBytesOfS;
}

void record_gemm_few_rows_by_address(Batch& batch, const GemmProduct& p) {
  Context& context = batch.context();
  const Tensors tensors = tensors_of(p);
  const TensorTable table{.tensors = {tensors.begin(), tensors.end()}};
  const Tensor addresses = prepare_tensor_table(batch, table, "gemm/addresses");
  Launch launch = launch_of(context, p, "gemm_few_rows_at");
  launch.uses = table.uses();
  batch.record(std::move(launch), with_numbers({addresses}, context, p));
}

void record_gemm_few_rows_portable(Batch& batch, const GemmProduct& p) {
  Context& context = batch.context();
  if (speaks_ptx(context.device())) return record_gemm_few_rows_by_address(batch, p);
  batch.record(launch_of(context, p, "gemm_few_rows"),
               with_numbers(with_tensors({}, tensors_of(p)), context, p));
}

}  // namespace clora
