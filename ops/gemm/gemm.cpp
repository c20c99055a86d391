#include "clora/ops/gemm/gemm.hpp"

#include <algorithm>
#include <vector>

#include "clora/ops/quant/quant.hpp"
#include "ops/activations.hpp"
#include "ops/gemm/gemm_dispatch.hpp"
#include "ops/gemm/gemm_groups.hpp"
#include "ops/gemm/gemm_parts.hpp"
#include "ops/gemm/grouped_shrink.hpp"
#include "ops/tensor_overlap.hpp"
#include "runtime/fail.hpp"

namespace clora {
namespace {

void record_product(Batch& batch, GemmProduct p);

bool has_f16(const GemmProduct& p) { return p.x.type() == DType::f16 || p.y.type() == DType::f16; }
bool has_f16_s(const GemmProduct& p) { return p.rank() > 0 && p.low_rank().s.type() == DType::f16; }

// The kernels for CPUs support only f32, those for matrix units also bf16; the portable ones
// support all types.
bool needs_f32(const Context& context, const GemmProduct& p) {
  if (context.capabilities().cpu) return !p.is_f32();
  return context.capabilities().has_gpu_matrices() && has_f16(p);
}

// Converts operands before and the result after.
void record_product_upcast(Batch& batch, GemmProduct p) {
  const Tensor y = std::exchange(p.y, f32_result(batch, p.y));
  p.x = record_upcast(batch, p.x);
  if (!p.epilogue.residual.empty()) p.epilogue.residual = record_upcast(batch, p.epilogue.residual);
  record_product(batch, p);
  record_result(batch, y, p.y);
}

// For kernels that support only an f32 s.
void record_with_f32_s(Batch& batch, GemmProduct p) {
  if (!p.has_shrink()) {
    p.epilogue.low_rank.s = record_upcast(batch, p.epilogue.low_rank.s);
    return record_product(batch, p);
  }
  const Tensor s = std::exchange(p.epilogue.low_rank.s, f32_result(batch, p.epilogue.low_rank.s));
  record_product(batch, p);
  record_result(batch, s, p.epilogue.low_rank.s);
}

void record_product(Batch& batch, GemmProduct p) {
  Context& context = batch.context();
  if (needs_f32(context, p)) return record_product_upcast(batch, p);
  const GemmImplementation& chosen = choose_gemm(context, p);
  const DType s_type = p.rank() == 0 ? DType::f32 : p.low_rank().s.type();
  const bool takes_s = s_type == DType::f32 || (s_type == DType::bf16 && chosen.takes_bf16_s);
  if (!takes_s) return record_with_f32_s(batch, p);
  if (p.has_shrink() && !chosen.fuses_shrink(context, p)) {
    const auto copies = chosen.reads_bf16_adapter ? AdapterCopies::read : AdapterCopies::ignored;
    record_product(batch, shrinks_of({&p, 1}, copies).front());
    p.epilogue.low_rank.a = {};
  }
  chosen.record(batch, p);
}

// The product p with the weight w, of which p has the tensor if it is in one part.
void record_weight_product(Batch& batch, const GemmProduct& p, const Weight& w) {
  if (w.is_split()) return record_gemm_in_parts(batch, p, w, record_product);
  record_product(batch, p);
}

// In one launch if an implementation can; none of them supports f16, or weights in several parts.
void record_products(Batch& batch, std::span<const GemmProduct> problems,
                     std::span<const Weight> weights) {
  const bool may_group =
      std::ranges::none_of(problems,
                           [](const GemmProduct& p) { return has_f16(p) || has_f16_s(p); }) &&
      std::ranges::none_of(weights, &Weight::is_split);
  const auto* chosen = may_group ? choose_gemm_group(batch.context(), problems) : nullptr;
  if (chosen != nullptr) return chosen->record_group(batch, problems);
  for (std::size_t i = 0; i < problems.size(); ++i) {
    record_weight_product(batch, problems[i], weights[i]);
  }
}

void require_rows(std::string_view op, std::string_view name, const Tensor& t) {
  require(!t.empty() && t.shape().rank() == 2 && t.elements() > 0,
          "{}: {} must be a matrix of f32, bf16 or f16, got {}", op, name,
          t.empty() ? "nothing" : t.text());
  require_any_activation(op, name, t, t.shape());
}

void require_low_rank(std::string_view op, const LowRankTerm& term, const Tensor& y,
                      const Tensor& x) {
  if (term.s.empty()) {
    require(term.u.empty() && term.a.empty(),
            "{}: low_rank.{} is set without low_rank.s; set both or neither", op,
            term.u.empty() ? "a" : "u");
    return;
  }
  require_rows(op, "low_rank.s", term.s);
  const std::int64_t rank = term.s.shape()[1];
  // [rank, columns], or a stack of as many as u has.
  const auto of_adapters = [&](std::int64_t columns) {
    if (term.row_groups.empty()) return Shape{rank, columns};
    const bool is_stack = !term.u.empty() && term.u.shape().rank() == 3;
    return Shape{is_stack ? term.u.shape()[0] : 1, rank, columns};
  };
  const auto require_bf16 = [&](std::string_view name, const Tensor& t, const Tensor& of) {
    if (!t.empty()) require_tensor(op, name, t, of.shape(), DType::bf16);
  };
  require_any_activation(op, "low_rank.s", term.s, {y.shape()[0], rank});
  require_tensor(op, "low_rank.u", term.u, of_adapters(y.shape()[1]));
  if (!term.row_groups.empty()) {
    require_tensor(op, "low_rank.row_groups", term.row_groups, {y.shape()[0], kRowGroupWords},
                   DType::u32);
  }
  require_bf16("low_rank.u_bf16", term.u_bf16, term.u);
  require(!overlap(y, term.s), "{}: the output must not alias low_rank.s", op);
  if (term.a.empty()) return;
  require_tensor(op, "low_rank.a", term.a, of_adapters(x.shape()[1]));
  require_bf16("low_rank.a_bf16", term.a_bf16, term.a);
  require(!overlap(term.s, x), "{}: low_rank.s must not alias the input where it is computed", op);
}

// The tensor that kernels read; empty if the weight is in several parts.
Tensor tensor_of(const Weight& w) { return w.is_split() ? Tensor() : w.whole(); }

GemmProduct product_of(const Tensor& y, const Tensor& x, const Weight& w,
                       const Epilogue& epilogue) {
  require_weight("gemm", "w", w);
  require_rows("gemm", "x", x);
  require_any_activation("gemm", "x", x, {x.shape()[0], w.shape()[1]});
  require_any_activation("gemm", "y", y, {x.shape()[0], w.shape()[0]});
  const auto& [bias, residual, low_rank, scale, column_scale] = epilogue;
  const Shape columns{w.shape()[0]};
  if (!bias.empty()) require_tensor("gemm", "bias", bias, columns);
  if (!residual.empty()) require_tensor("gemm", "residual", residual, y.shape(), y.type());
  if (!column_scale.empty()) require_tensor("gemm", "column_scale", column_scale, columns);
  require_low_rank("gemm", low_rank, y, x);
  require(!overlap(y, x), "gemm: y must not alias x");
  return {.y = y, .x = x, .w = tensor_of(w), .epilogue = epilogue};
}

bool shrinks_with_products(Context& context, std::span<const GemmProduct> problems) {
  const bool may = std::ranges::none_of(
      problems, [](const GemmProduct& p) { return p.w.empty() || has_f16(p) || has_f16_s(p); });
  return may && gemm_shrinks_rows(context, problems);
}

// Unless the products' launch computes it, the shrink of row groups is recorded here, for all
// products of one input, and the products read s. The input is computed in its launch if there is
// just one.
void record_input_and_shrinks(Batch& batch, const ProductInput& input,
                              std::span<GemmProduct> problems) {
  if (shrinks_with_products(batch.context(), problems)) {
    record_input(batch, input);
    return;
  }
  std::vector<LowRankTerm> terms, wide_terms;
  std::vector<GemmProduct*> wide;
  for (GemmProduct& p : problems) {
    if (!p.has_shrink() || !p.has_row_groups()) continue;
    const bool is_wide = gemm_takes_wide_ranks(batch.context(), p);
    (is_wide ? wide_terms : terms).push_back(p.low_rank());
    if (is_wide) wide.push_back(&p);
    p.epilogue.low_rank.a = {};
  }
  const bool fuses =
      terms.empty() != wide_terms.empty() &&
      grouped_shrinks_compute(batch.context(), input, terms.empty() ? wide_terms : terms);
  const ProductInput x = fuses ? input : record_input(batch, input);
  record_grouped_shrinks(batch, x, terms);
  wide_terms = record_wide_shrinks(batch, x, wide_terms);
  for (std::size_t i = 0; i < wide.size(); ++i) wide[i]->epilogue.low_rank = wide_terms[i];
}

GemmProduct backward_product_of(const Tensor& dx, const GemmTerm& term, Accumulate accumulate) {
  const auto& [dy, w, low_rank] = term;
  require_weight("gemm backward", "w", w);
  require_rows("gemm backward", "dy", dy);
  require_any_activation("gemm backward", "dy", dy, {dy.shape()[0], w.shape()[0]});
  require_any_activation("gemm backward", "dx", dx, {dy.shape()[0], w.shape()[1]});
  require(low_rank.row_groups.empty(),
          "gemm backward: row_groups are for forward products; record one backward per adapter");
  require_low_rank("gemm backward", low_rank, dx, dy);
  require(!overlap(dx, dy), "gemm backward: dx must not alias dy");
  return {
      .y = dx,
      .x = dy,
      .w = tensor_of(w),
      .epilogue = {.residual = accumulate == Accumulate::yes ? dx : Tensor(), .low_rank = low_rank},
      .backward = true};
}

}  // namespace

void record_gemm(Batch& batch, const Tensor& y, const Tensor& x, const Weight& w,
                 const Epilogue& epilogue) {
  GemmProduct p = product_of(y, x, w, epilogue);
  record_input_and_shrinks(batch, x, {&p, 1});
  record_weight_product(batch, p, w);
}

void record_gemms(Batch& batch, const ProductInput& input, std::span<const GemmOutput> outputs) {
  std::vector<GemmProduct> problems;
  std::vector<Weight> weights;
  for (const auto& [y, w, epilogue] : outputs) {
    problems.push_back(product_of(y, input.x, w, epilogue));
    weights.push_back(w);
  }
  record_input_and_shrinks(batch, input, problems);
  record_products(batch, problems, weights);
}

void record_gemm_backward(Batch& batch, const Tensor& dx, const Tensor& dy, const Weight& w,
                          Accumulate accumulate, const LowRankTerm& low_rank) {
  record_weight_product(batch, backward_product_of(dx, {dy, w, low_rank}, accumulate), w);
}

void record_gemm_backward_sum(Batch& batch, const Tensor& dx, std::span<const GemmTerm> terms,
                              Accumulate accumulate) {
  std::vector<GemmProduct> problems;
  std::vector<Weight> weights;
  for (const GemmTerm& term : terms) {
    problems.push_back(backward_product_of(dx, term, accumulate));
    weights.push_back(term.w);
    accumulate = Accumulate::yes;
  }
  record_products(batch, problems, weights);
}

bool products_round_to_bf16(const Context& context) {
  return context.capabilities().rounds_products();
}

Cost gemm_cost(std::int64_t m, const Weight& w) {
  const auto rows = static_cast<double>(m);
  const auto n = static_cast<double>(w.shape()[0]);
  const auto k = static_cast<double>(w.shape()[1]);
  return {2 * rows * n * k, 4 * rows * (n + k) + static_cast<double>(w.bytes())};
}

}  // namespace clora
