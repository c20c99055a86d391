#include "clora/ops/experts/grouped_gemm.hpp"

#include "clora/ops/quant/quant.hpp"
#include "ops/activations.hpp"
#include "ops/dispatch/implementation.hpp"
#include "ops/dispatch/requirements.hpp"
#include "ops/experts/grouped_gemm_kernels.hpp"
#include "ops/gemm/gemm_plan.hpp"
#include "ops/tensor_overlap.hpp"
#include "runtime/fail.hpp"

namespace clora {
namespace {

struct GroupedImplementation {
  std::string_view name;
  std::string_view file;
  const char* (*unavailable)(const Context&);
  const char* (*refusal)(const Context&, const GroupedProduct&);
  bool (*passed)(Context&, const GroupedProduct&);
  void (*record)(Batch&, const GroupedProduct&);
};

const char* cpu_refusal(const Context&, const GroupedProduct& p) {
  return p.is_f32() ? nullptr : "it is for f32 activations";
}

const char* skinny_cpu_refusal(const Context& context, const GroupedProduct& p) {
  if (const char* refusal = cpu_refusal(context, p)) return refusal;
  return grouped_few_rows_refusal(context, p);
}

const char* skinny_int8_refusal(const Context& context, const GroupedProduct& p) {
  if (const char* refusal = skinny_cpu_refusal(context, p)) return refusal;
  return grouped_skinny_int8_refusal(context, p);
}

// As dense products: narrow outputs, such as those of an adapter's shrink, are not rounded.
const char* bf16_cpu_refusal(const Context& context, const GroupedProduct& p) {
  if (const char* refusal = cpu_refusal(context, p)) return refusal;
  const GemmSize size{.rows = static_cast<std::uint32_t>(p.plan.slot_count()),
                      .columns = static_cast<std::uint32_t>(p.columns()),
                      .k = static_cast<std::uint32_t>(p.k())};
  return rounds_to_bf16(context, size, p.backward) ? nullptr : "it is for more than 16 columns";
}

constexpr GroupedImplementation kImplementations[] = {
    {"matrix", kGroupedMatrix, needs_any_matrix_unit, grouped_matrix_refusal, grouped_matrix_passed,
     record_grouped_matrix},
    {"skinny_int8_cpu", kGroupedSkinnyCpu, needs_cpu, skinny_int8_refusal,
     grouped_skinny_int8_passed, record_grouped_skinny_int8},
    {"skinny_cpu", kGroupedSkinnyCpu, needs_cpu, skinny_cpu_refusal, grouped_skinny_cpu_passed,
     record_grouped_skinny_cpu},
    {"bf16_cpu", kGroupedBf16Cpu, needs_bf16_cpu, bf16_cpu_refusal, grouped_bf16_cpu_passed,
     record_grouped_bf16_cpu},
    {"cpu", kGroupedCpu, needs_cpu, cpu_refusal, grouped_cpu_passed, record_grouped_cpu},
    {"skinny_ptx", kGroupedSkinny, needs_ptx, grouped_few_rows_refusal, grouped_skinny_ptx_passed,
     record_grouped_skinny_ptx},
    {"skinny", kGroupedSkinny, needs_nothing, grouped_few_rows_refusal, needs_no_test,
     record_grouped_skinny},
    {"portable", kGroupedPortable, needs_nothing, refuses_nothing, needs_no_test,
     record_grouped_portable},
};
constexpr ImplementationList<GroupedImplementation> kList{"grouped_gemm", kImplementations};

void require_offsets(std::string_view name, const Tensor& offsets, const ExpertPlan& plan) {
  require_tensor("grouped_gemm", name, offsets, {plan.experts()}, DType::u32);
}

// Returns [N, K] of each expert.
Shape require_matrices(const ExpertMatrices& matrices, const ExpertPlan& plan) {
  if (!matrices.offsets.empty()) {
    require_offsets("offsets", matrices.offsets, plan);
    require(matrices.w.whole().type() == DType::f32 && matrices.shape.rank() == 2,
            "grouped_gemm: matrices at offsets must be f32 of the shape of each, got {} {}",
            matrices.w.text(), matrices.shape.text());
    return matrices.shape;
  }
  require_weight("grouped_gemm", "w", matrices.w);
  const Shape all = matrices.w.shape();
  require(!matrices.w.is_split() && all[0] % plan.experts() == 0,
          "grouped_gemm: w must be the matrices of {} experts in one part, got {}", plan.experts(),
          matrices.w.text());
  return {all[0] / plan.experts(), all[1]};
}

void require_product(const GroupedProduct& p) {
  const Shape each = require_matrices(p.matrices, p.plan);
  const std::int64_t inputs = each[p.backward ? 0 : 1], outputs = each[p.backward ? 1 : 0];
  const std::int64_t slots = p.plan.slot_count();
  const std::int64_t rows = p.rows == ExpertRows::of_entries ? p.plan.rows() : slots;
  require_any_activation("grouped_gemm", "x", p.x, {rows, inputs});
  require_any_activation("grouped_gemm", "y", p.y, {slots, outputs});
  require(!overlap(p.y, p.x), "grouped_gemm: y must not alias x");
  if (p.low_rank.s.empty()) return;
  require_tensor("grouped_gemm", "low_rank.s", p.low_rank.s, {slots, p.low_rank.s.shape()[1]});
  require_offsets("low_rank.offsets", p.low_rank.offsets, p.plan);
}

void record(Batch& batch, const GroupedProduct& p) {
  require_product(p);
  choose_implementation(batch.context(), kList, p).record(batch, p);
}

}  // namespace

Cost GroupedProduct::cost() const {
  Cost cost = grouped_gemm_cost(plan, matrices);
  const auto entries = static_cast<double>(plan.rows() * plan.experts_of_row());
  cost.flops += 2 * entries * static_cast<double>(rank() * columns());
  return cost;
}

void record_grouped_gemm(Batch& batch, const Tensor& y, const Tensor& x, ExpertRows rows,
                         const ExpertMatrices& matrices, const ExpertPlan& plan,
                         const ExpertLowRank& low_rank, float scale) {
  record(batch, {.y = y,
                 .x = x,
                 .matrices = matrices,
                 .plan = plan,
                 .rows = rows,
                 .low_rank = low_rank,
                 .scale = scale});
}

void record_grouped_gemm_backward(Batch& batch, const Tensor& y, const Tensor& x,
                                  const ExpertMatrices& matrices, const ExpertPlan& plan,
                                  Accumulate accumulate, const ExpertLowRank& low_rank) {
  record(batch, {.y = y,
                 .x = x,
                 .matrices = matrices,
                 .plan = plan,
                 .low_rank = low_rank,
                 .backward = true,
                 .accumulates = accumulate == Accumulate::yes});
}

Cost grouped_gemm_cost(const ExpertPlan& plan, const ExpertMatrices& matrices) {
  const bool is_flat = !matrices.offsets.empty();
  const Shape all = matrices.w.shape();
  const Shape each = is_flat ? matrices.shape : Shape{all[0] / plan.experts(), all[1]};
  const auto entries = static_cast<double>(plan.rows() * plan.experts_of_row());
  const auto n = static_cast<double>(each[0]), k = static_cast<double>(each[1]);
  const double read = static_cast<double>(plan.active.elements()) * n * k *
                      static_cast<double>(matrices.w.bytes()) /
                      static_cast<double>(matrices.w.elements());
  return {2 * entries * n * k, 4 * entries * (n + k) + read};
}

}  // namespace clora
