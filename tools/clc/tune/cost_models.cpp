#include "tools/clc/tune/cost_models.hpp"

#include "clora/ops/quant/quant.hpp"
#include "ops/dispatch/requirements.hpp"
#include "ops/gemm/gemm_hopper.hpp"
#include "ops/gemm/gemm_kernels.hpp"
#include "ops/gemm/gemm_matrix_tiles.hpp"
#include "ops/gemm/gemm_plan.hpp"
#include "ops/gemm/gemm_portable_plan.hpp"
#include "ops/tuned/costs.hpp"

namespace clora {
namespace {

// All elements are small numbers of one value in every type.
Tensor filled(Context& context, Shape shape, WeightForm form) {
  const Tensor tensor =
      context.allocate(shape, form.type, MemoryTag::scratch).in_layout(form.layout);
  context.write(tensor, std::vector<std::byte>(tensor.bytes(), std::byte{0x3c}));
  return tensor;
}
Tensor filled(Context& context, Shape shape, DType type = DType::f32) {
  return filled(context, shape, {type, Layout::plain});
}

const char* needs_no_cpu(const Context& context) {
  return context.capabilities().cpu ? "it is for GPUs" : nullptr;
}

// Linear layers of D to F and back.
void add_layers(std::vector<CostProblem>& problems, CostProblem problem, std::int64_t D,
                std::int64_t F) {
  for (const auto& [columns, k] : {std::pair{F, D}, std::pair{D, F}}) {
    problem.columns = columns;
    problem.k = k;
    problems.push_back(problem);
  }
}

// As SmolLM2-135M's.
std::vector<CostProblem> problems_for_cpus() {
  std::vector<CostProblem> problems;
  for (const DType weight : {DType::f32, DType::bf16, DType::q8_0}) {
    for (const std::int64_t rows : {16, 100, 512}) {
      for (const std::int64_t rank : {0, 8}) {
        add_layers(problems, {.rows = rows, .rank = rank, .weight = weight}, 576, 1536);
      }
    }
    add_layers(problems, {.rows = 512, .weight = weight, .backward = true}, 576, 1536);
  }
  return problems;
}

// As Qwen2.5-0.5B's.
std::vector<CostProblem> problems_of_many_rows() {
  std::vector<CostProblem> problems;
  for (const std::int64_t rows : {24, 64, 512, 2048, 8192}) {
    for (const std::int64_t rank : {0, 16}) {
      add_layers(problems, {.rows = rows, .rank = rank}, 896, 4864);
      problems.push_back({.rows = rows, .columns = 128, .k = 896, .rank = rank});
    }
    add_layers(problems, {.rows = rows, .backward = true}, 896, 4864);
  }
  return problems;
}

// Some have so many rows that other kernels may be faster.
std::vector<CostProblem> problems_of_few_rows() {
  std::vector<CostProblem> problems;
  for (const std::int64_t rows : {1, 2, 4, 6, 8, 12, 16}) {
    for (const std::int64_t rank : {0, 16}) {
      add_layers(problems, {.rows = rows, .rank = rank}, 896, 4864);
      problems.push_back({.rows = rows, .columns = 896, .k = 896, .rank = rank});
    }
    problems.push_back({.rows = rows, .columns = 32768, .k = 896});
  }
  return problems;
}

template <class Costs>
CostModel model_of(const char* (*unavailable)(const Context&),
                   const std::vector<CostProblem>& problems) {
  return {.name = Costs::kModel,
          .unavailable = unavailable,
          .costs = [](const Context& context) { return named(costs_of<Costs>(context)); },
          .set = [](const Context& context,
                    const NamedCosts& costs) { set_costs(context, costs_from<Costs>(costs)); },
          .problems = problems};
}

}  // namespace

PreparedProblem::PreparedProblem(Context& context, const CostProblem& problem) : problem_(problem) {
  const auto& [rows, columns, k, rank, weight, backward] = problem;
  const DType type = context.activation_type();
  const Shape of_weight = backward ? Shape{k, columns} : Shape{columns, k};
  x_ = filled(context, {rows, k}, type);
  y_ = filled(context, {rows, columns}, type);
  w_ = filled(context, of_weight, preferred_form(context, of_weight, weight));
  if (rank == 0) return;
  epilogue_.low_rank = {.s = filled(context, {rows, rank}),
                        .u = filled(context, {rank, columns}),
                        .scale = 1,
                        .a = filled(context, {rank, k}),
                        .a_scale = 1};
}

void PreparedProblem::record(Batch& batch) const {
  if (problem_.backward) return record_gemm_backward(batch, y_, x_, w_, Accumulate::no);
  record_gemm(batch, y_, x_, w_, epilogue_);
}

std::vector<CostModel> cost_models() {
  return {model_of<GemmCpuCosts>(needs_cpu, problems_for_cpus()),
          model_of<GemmMatrixCosts>(needs_matrix_unit, problems_of_many_rows()),
          model_of<GemmPortableCosts>(needs_portable, problems_of_many_rows()),
          model_of<GemmSkinnyCosts>(needs_no_cpu, problems_of_few_rows()),
          model_of<GemmWgmmaCosts>(needs_wgmma, problems_of_many_rows())};
}

}  // namespace clora
