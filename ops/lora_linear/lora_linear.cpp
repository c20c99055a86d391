#include "clora/ops/lora_linear/lora_linear.hpp"

#include <algorithm>
#include <vector>

#include "clora/ops/rowwise/dropout.hpp"
#include "ops/activations.hpp"
#include "ops/gemm/gemm_dispatch.hpp"
#include "ops/lora_linear/lora_gradient_dispatch.hpp"
#include "ops/lora_linear/weight_gradient.hpp"
#include "ops/tensor_overlap.hpp"
#include "runtime/fail.hpp"

namespace clora {
namespace {

// Throws if the adapter has what only the forward without dropout supports.
void require_forward_form(std::string_view op, const LoraWeights& lora) {
  require(lora.row_groups.empty() && lora.column_scale.empty(),
          "{}: lora.row_groups and lora.column_scale are for the forward without dropout", op);
}

void require_adapter(std::string_view op, const LinearWeights& weights, const LoraWeights& lora) {
  require(!weights.w.empty() && weights.w.shape().rank() == 2,
          "{}: weights.w must be a matrix [N, K]", op);
  if (lora.empty()) return;
  const bool is_stack = !lora.row_groups.empty();
  require(lora.a.shape().rank() == (is_stack ? 3 : 2) && lora.a.elements() > 0,
          "{}: lora.a must be {}, got {}", op,
          is_stack ? "a stack of matrices [adapters, R, K]" : "a matrix [R, K]", lora.a.text());
  const auto shape = [&](std::int64_t columns) {
    return is_stack ? Shape{lora.a.shape()[0], lora.rank(), columns} : Shape{lora.rank(), columns};
  };
  require_tensor(op, "lora.a", lora.a, shape(weights.w.shape()[1]));
  require_tensor(op, "lora.bt", lora.bt, shape(weights.w.shape()[0]));
  const float probability = lora.dropout.probability;
  require(probability >= 0 && probability < 1,
          "{}: dropout.probability must be at least 0 and below 1, got {}", op, probability);
  if (probability > 0) {
    require_forward_form(op, lora);
    require_tensor(op, "dropout.seed_and_step", lora.dropout.seed_and_step, {2}, DType::u32);
  }
}

void require_matrix(std::string_view op, std::string_view name, const Tensor& t) {
  require(!t.empty() && t.shape().rank() == 2 && t.elements() > 0,
          "{}: {} must be a matrix of f32, bf16 or f16, got {}", op, name,
          t.empty() ? "nothing" : t.text());
}

void drop(Batch& batch, const Tensor& y, const Tensor& x, const LoraDropout& dropout,
          bool accumulate) {
  record_dropout(batch, y, x, dropout.seed_and_step, {dropout.probability, dropout.site},
                 accumulate);
}

// The adapter's input: x itself without dropout, otherwise a new f32 temporary.
Tensor adapter_input(Batch& batch, const Tensor& x, const LoraDropout& dropout) {
  if (dropout.probability == 0) return x;
  const Tensor dropped = batch.temporary(x.shape(), DType::f32, "lora dropped x");
  drop(batch, dropped, record_upcast(batch, x), dropout, false);
  return dropped;
}

// ds a, the adapter's part of dx without dropout. shrinks: ds = scale * dy b is computed first.
LowRankTerm term_of_dx(const Tensor& ds, bool shrinks, const LoraWeights& lora) {
  LowRankTerm term{.s = ds, .u = lora.a, .u_bf16 = lora.a_bf16};
  if (shrinks) {
    term.a = lora.bt;
    term.a_scale = lora.scale;
    term.a_bf16 = lora.bt_bf16;
  }
  return term;
}

// dx (+)= dy w + drop'(ds a). shrinks: also computes ds = scale * dy b.
void record_dx(Batch& batch, const Tensor& dx, const Tensor& dy, const Tensor& ds, bool shrinks,
               const LinearWeights& weights, const LoraWeights& lora, Accumulate accumulate) {
  if (lora.dropout.probability == 0 && !dx.empty()) {
    return record_gemm_backward(batch, dx, dy, weights.w, accumulate,
                                term_of_dx(ds, shrinks, lora));
  }
  if (shrinks) record_lora_shrink(batch, ds, dy, lora.bt, lora.scale);
  if (dx.empty()) return;
  const bool adds = accumulate == Accumulate::yes;
  const Tensor sum = adds ? record_upcast(batch, dx) : f32_result(batch, dx);
  record_gemm_backward(batch, sum, dy, weights.w, accumulate);
  const Tensor through_adapter = batch.temporary(dx.shape(), DType::f32, "lora ds a");
  record_gemm_backward(batch, through_adapter, ds, lora.a, Accumulate::no);
  drop(batch, sum, through_adapter, lora.dropout, true);
  record_result(batch, dx, sum);
}

// The epilogue of a layer's base product; with dropout, s is computed here.
Epilogue epilogue_of(Batch& batch, const LoraOutput& output, const Tensor& x) {
  const auto& [y, s, weights, lora, residual] = output;
  require_adapter("lora_linear", weights, lora);
  Epilogue epilogue{.bias = weights.bias, .residual = residual, .column_scale = lora.column_scale};
  if (lora.empty()) return epilogue;
  require_matrix("lora_linear", "x", x);
  require_any_activation("lora_linear", "s", s, {x.shape()[0], lora.rank()});
  epilogue.low_rank = {.s = s,
                       .u = lora.bt,
                       .scale = lora.scale,
                       .u_bf16 = lora.bt_bf16,
                       .row_groups = lora.row_groups};
  if (lora.dropout.probability == 0) {
    epilogue.low_rank.a = lora.a;
    epilogue.low_rank.a_bf16 = lora.a_bf16;
  } else {
    record_lora_shrink(batch, s, adapter_input(batch, x, lora.dropout), lora.a, 1);
  }
  return epilogue;
}

void require_gradient(std::string_view op, const LoraGradientProduct& p) {
  require_matrix(op, "s", p.s);
  require_matrix(op, "x", p.x);
  const std::int64_t rows = p.s.shape()[0];
  const std::int64_t rank = p.s.shape()[1];
  const std::int64_t width = p.x.shape()[1];
  require_any_activation(op, "s", p.s, p.s.shape());
  require_any_activation(op, "x", p.x, {rows, width});
  require_tensor(op, "out", p.out, {rank, width});
  require(!overlap(p.out, p.s) && !overlap(p.out, p.x), "{}: out must alias neither s nor x", op);
}

// dbt += scale * dy^T s
LoraGradientProduct dbt_of(const LoraBranch& branch) {
  return {.out = branch.gradients.dbt, .s = branch.s, .x = branch.dy, .scale = branch.lora.scale};
}

constexpr std::string_view kBackward = "lora_linear backward";

void require_branch(const LoraBranch& branch) {
  require_adapter(kBackward, branch.weights, branch.lora);
  require_forward_form(kBackward, branch.lora);
  if (branch.lora.empty()) return;
  require_matrix(kBackward, "dy", branch.dy);
  const std::int64_t rows = branch.dy.shape()[0];
  require_any_activation(kBackward, "saved.s", branch.s, {rows, branch.lora.a.shape()[0]});
  require_gradient(kBackward, dbt_of(branch));
}

PendingGradient pending_of(Batch& batch, const LoraBranch& branch, DType type) {
  const LoraWeights& lora = branch.lora;
  return {branch.gradients.da,
          batch.temporary({branch.dy.shape()[0], lora.a.shape()[0]}, type, "lora ds"),
          lora.dropout};
}

// Whether the launch of dbt also computes ds.
bool shares_dx_launch(Context& context, const LoraBranch& branch) {
  return !branch.lora.empty() && choose_lora_gradient(context, dbt_of(branch)).fuses_shrink;
}

// Whether one product can compute the layers' dx.
bool are_alike(std::span<const LoraBranch> branches) {
  const LoraWeights& first = branches.front().lora;
  return std::ranges::all_of(branches, [&](const LoraBranch& branch) {
    const LoraWeights& lora = branch.lora;
    return !lora.empty() && lora.a.shape()[0] == first.a.shape()[0] && lora.scale == first.scale &&
           lora.dropout.probability == 0;
  });
}

// Records dx and dbt of one layer.
std::vector<PendingGradient> record_one_dx(Batch& batch, const Tensor& dx, const LoraBranch& branch,
                                           Accumulate accumulate, DeferredGradients& deferred) {
  const auto& [gradients, dy, s, weights, lora] = branch;
  if (lora.empty()) {
    if (!dx.empty()) record_gemm_backward(batch, dx, dy, weights.w, accumulate);
    return {};
  }
  const PendingGradient pending = pending_of(batch, branch, DType::f32);
  const LoraGradientProduct of_b = dbt_of(branch);
  deferred.record(batch, {&of_b, 1});
  record_dx(batch, dx, dy, pending.ds, true, weights, lora, accumulate);
  return {pending};
}

// Records dx, in one sum, and dbt of several layers whose ds the products compute.
std::vector<PendingGradient> record_summed_dx(Batch& batch, const Tensor& dx,
                                              std::span<const LoraBranch> branches,
                                              Accumulate accumulate, DeferredGradients& deferred) {
  std::vector<PendingGradient> all;
  std::vector<LoraGradientProduct> of_b;
  std::vector<GemmTerm> terms;
  for (const LoraBranch& branch : branches) {
    const Tensor ds = all.emplace_back(pending_of(batch, branch, DType::f32)).ds;
    of_b.push_back(dbt_of(branch));
    terms.push_back({branch.dy, branch.weights.w, term_of_dx(ds, true, branch.lora)});
  }
  deferred.record(batch, of_b);
  record_gemm_backward_sum(batch, dx, terms, accumulate);
  return all;
}

// Records dx and dbt of several layers with the kernel that computes ds together with dbt.
std::vector<PendingGradient> record_shared_dx(Batch& batch, const Tensor& dx,
                                              std::span<const LoraBranch> branches,
                                              Accumulate accumulate, DeferredGradients& deferred) {
  std::vector<PendingGradient> all;
  std::vector<LoraGradientProduct> of_b;
  std::vector<GemmTerm> terms;
  for (const LoraBranch& branch : branches) {
    const LoraWeights& lora = branch.lora;
    const Tensor ds = all.emplace_back(pending_of(batch, branch, DType::bf16)).ds;
    of_b.push_back(dbt_of(branch));
    of_b.back().shrunk = ds;
    of_b.back().b = lora.bt_bf16.empty() ? lora.bt : lora.bt_bf16;
    of_b.back().shrink_scale = lora.scale;
    terms.push_back({branch.dy, branch.weights.w, term_of_dx(ds, false, lora)});
  }
  deferred.record(batch, of_b);
  const LoraBranch& first = branches.front();
  if (first.lora.dropout.probability > 0) {
    record_dx(batch, dx, first.dy, all.front().ds, false, first.weights, first.lora, accumulate);
  } else if (!dx.empty()) {
    record_gemm_backward_sum(batch, dx, terms, accumulate);
  }
  return all;
}

}  // namespace

void record_lora_linear(Batch& batch, const Tensor& y, const Tensor& s, const Tensor& x,
                        const LinearWeights& weights, const LoraWeights& lora,
                        const Tensor& residual) {
  record_gemm(batch, y, x, weights.w, epilogue_of(batch, {y, s, weights, lora, residual}, x));
}

void record_lora_linears(Batch& batch, const ProductInput& x, std::span<const LoraOutput> outputs) {
  std::vector<GemmOutput> products;
  for (const LoraOutput& output : outputs) {
    require(!x.is_computed() || output.lora.dropout.probability == 0,
            "lora_linear: with dropout the input must be given, not computed with the product");
    products.push_back({output.y, output.weights.w, epilogue_of(batch, output, x.x)});
  }
  record_gemms(batch, x, products);
}

void record_lora_linear_backward(Batch& batch, const Tensor& dx, const LoraGradients& gradients,
                                 const Tensor& dy, const LoraLinearSaved& saved,
                                 const LinearWeights& weights, const LoraWeights& lora,
                                 Accumulate accumulate_dx) {
  const LoraBranch branch{gradients, dy, saved.s, weights, lora};
  record_lora_linears_backward(batch, dx, saved.x, {&branch, 1}, accumulate_dx);
}

void record_lora_linears_backward(Batch& batch, const Tensor& dx, const Tensor& x,
                                  std::span<const LoraBranch> branches, Accumulate accumulate_dx) {
  for (const LoraBranch& branch : branches) {
    if (branch.lora.empty()) continue;
    require_branch(branch);
    require_any_activation(kBackward, "saved.x", x,
                           {branch.dy.shape()[0], branch.weights.w.shape()[1]});
    require(!overlap(dx, x), "{}: dx must not alias saved.x", kBackward);
  }
  DeferredGradients deferred;
  record_lora_linears_da(
      batch, x, record_lora_linears_dx(batch, dx, branches, accumulate_dx, deferred), deferred);
  deferred.flush(batch);
}

std::vector<PendingGradient> record_lora_linears_dx(Batch& batch, const Tensor& dx,
                                                    std::span<const LoraBranch> branches,
                                                    Accumulate accumulate_dx,
                                                    DeferredGradients& deferred) {
  for (const LoraBranch& branch : branches) require_branch(branch);
  if (are_alike(branches)) {
    if (shares_dx_launch(batch.context(), branches.front())) {
      return record_shared_dx(batch, dx, branches, accumulate_dx, deferred);
    }
    if (branches.size() > 1 && !dx.empty()) {
      return record_summed_dx(batch, dx, branches, accumulate_dx, deferred);
    }
  }
  std::vector<PendingGradient> all;
  for (const LoraBranch& branch : branches) {
    const auto pending = shares_dx_launch(batch.context(), branch)
                             ? record_shared_dx(batch, dx, {&branch, 1}, accumulate_dx, deferred)
                             : record_one_dx(batch, dx, branch, accumulate_dx, deferred);
    all.insert(all.end(), pending.begin(), pending.end());
    accumulate_dx = Accumulate::yes;
  }
  return all;
}

void record_lora_linears_da(Batch& batch, const Tensor& x, std::span<const PendingGradient> pending,
                            DeferredGradients& deferred) {
  for (const auto& [da, ds, dropout, is_weight] : pending) {
    if (is_weight) {
      record_weight_gradient(batch, da, ds, x);
      continue;
    }
    const LoraGradientProduct product{.out = da, .s = ds, .x = adapter_input(batch, x, dropout)};
    require_gradient(kBackward, product);
    deferred.add(batch, product);
  }
}

void record_lora_linear_unfused(Batch& batch, const Tensor& y, const Tensor& s, const Tensor& x,
                                const LinearWeights& weights, const LoraWeights& lora,
                                const Tensor& residual) {
  require_adapter("lora_linear", weights, lora);
  require_forward_form("lora_linear unfused", lora);
  record_gemm(batch, y, x, weights.w, {.bias = weights.bias, .residual = residual});
  if (lora.empty()) return;
  const Tensor input = adapter_input(batch, x, lora.dropout);
  record_lora_shrink(batch, s, input, lora.a, 1);
  const Tensor scaled = batch.temporary(s.shape(), DType::f32, "lora scaled s");
  record_lora_shrink(batch, scaled, input, lora.a, lora.scale);
  record_gemm_backward(batch, y, scaled, lora.bt, Accumulate::yes);
}

void record_lora_shrink(Batch& batch, const Tensor& out, const Tensor& x, const Tensor& a,
                        float scale) {
  require_matrix("lora_shrink", "a", a);
  require_tensor("lora_shrink", "a", a, a.shape());
  record_gemm(batch, out, x, a, {.scale = scale});
}

void record_lora_gradient(Batch& batch, const Tensor& out, const Tensor& s, const Tensor& x,
                          float scale) {
  const LoraGradientProduct product{.out = out, .s = s, .x = x, .scale = scale};
  require_gradient("lora_gradient", product);
  record_gradient(batch, product);
}

bool reads_bf16_adapter(const Context& context) { return gemm_reads_bf16_adapter(context); }

Cost lora_linear_cost(std::int64_t rows, const LinearWeights& weights, std::int64_t rank) {
  Cost cost = gemm_cost(rows, weights.w);
  const std::int64_t widths = weights.w.shape()[0] + weights.w.shape()[1];
  cost.flops += 2.0 * static_cast<double>(rows * rank * widths);
  cost.bytes += 4.0 * static_cast<double>(rank * widths + 2 * rows * rank);
  return cost;
}

}  // namespace clora
