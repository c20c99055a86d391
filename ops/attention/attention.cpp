#include "clora/ops/attention/attention.hpp"

#include <algorithm>

#include "ops/activations.hpp"
#include "ops/attention/attention_dispatch.hpp"
#include "ops/attention/attention_hopper.hpp"

namespace clora {
namespace {

// Whether an implementation that would be used for T rows of this head dim reads the order.
bool reads_order(Context& context, std::int64_t T, std::int64_t H, std::int64_t E) {
  const AttentionForward forward{
      .spec = {context, T, T, H, H, E}, .y = {}, .log_sum_exp = {}, .in = {}};
  return std::ranges::any_of(
      attention_implementations().all, [&](const AttentionImplementation& each) {
        return each.reads_order && refusal_of(each, context, forward) == nullptr;
      });
}

}  // namespace

Tensor record_attention_order(Batch& batch, const Tensor& first, const Tensor& last, std::int64_t H,
                              std::int64_t E) {
  if (!reads_order(batch.context(), first.elements(), H, E)) return {};
  const std::int64_t units = std::max(1U, batch.context().device().compute_units);
  return record_tile_order(batch, first, last, std::max<std::int64_t>(1, units / H));
}

void record_attention(Batch& batch, const Tensor& y, const Tensor& log_sum_exp,
                      const AttentionInputs& in) {
  const AttentionSpec spec = checked_spec("attention", batch.context(), in);
  require_any_activation("attention", "y", y, in.q.shape());
  if (!log_sum_exp.empty()) {
    require_tensor("attention", "log_sum_exp", log_sum_exp, {spec.T, spec.H});
  }
  AttentionForward forward{spec, y, log_sum_exp, in};
  const AttentionImplementation& chosen = choose_attention(batch.context(), forward);
  const bool is_f32 = in.q.type() == DType::f32 && y.type() == DType::f32;
  if (is_f32 || chosen.types == ActivationTypes::any) return chosen.record(batch, forward);
  forward.in.q = record_upcast(batch, in.q);
  forward.y = f32_result(batch, y);
  chosen.record(batch, forward);
  record_result(batch, y, forward.y);
}

}  // namespace clora
