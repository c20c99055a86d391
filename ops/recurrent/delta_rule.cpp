#include "clora/ops/recurrent/delta_rule.hpp"

#include "ops/activations.hpp"
#include "ops/dispatch/variant_launch.hpp"
#include "ops/recurrent/delta_rule_dispatch.hpp"
#include "ops/tensor_overlap.hpp"
#include "runtime/fail.hpp"

namespace clora {
namespace {

constexpr std::int64_t kMaxHeads = 1 << 10, kMaxDim = 1 << 10;

void require_heads(const DeltaRuleHeads& heads) {
  const bool fits = heads.key_heads >= 1 && heads.value_heads >= heads.key_heads &&
                    heads.value_heads <= kMaxHeads && heads.value_heads % heads.key_heads == 0 &&
                    heads.key_dim >= 1 && heads.key_dim <= kMaxDim && heads.value_dim >= 1 &&
                    heads.value_dim <= kMaxDim;
  require(
      fits,
      "delta_rule: value heads must be a multiple of key heads, at most {} of up to {} elements, "
      "got {} of {} and {} of {}",
      kMaxHeads, kMaxDim, heads.value_heads, heads.value_dim, heads.key_heads, heads.key_dim);
}

double products_per_row(const DeltaRuleHeads& heads, double with_key, double with_value,
                        double with_state) {
  constexpr double kChunk = 64;
  const auto K = static_cast<double>(heads.key_dim), V = static_cast<double>(heads.value_dim);
  return static_cast<double>(heads.value_heads) *
         (2 * kChunk * (with_key * K + with_value * V) + 2 * with_state * K * V);
}

void require_delta_rule(const DeltaRuleInputs& in, std::string_view rows_name) {
  require_heads(in.heads);
  require(!in.qkv.empty() && in.qkv.shape().rank() == 2 && in.qkv.shape()[0] >= 1,
          "delta_rule: qkv must have at least one row, got {}",
          in.qkv.empty() ? "nothing" : in.qkv.text());
  const std::int64_t T = in.qkv.shape()[0], H = in.heads.value_heads;
  require_any_activation("delta_rule", "qkv", in.qkv, {T, in.heads.width()});
  require_tensor("delta_rule", "a", in.a, {T, H}, in.qkv.type());
  require_tensor("delta_rule", "b", in.b, {T, H}, in.qkv.type());
  require_tensor("delta_rule", "rate", in.rate, {H});
  require_tensor("delta_rule", "dt_bias", in.dt_bias, {H});
  require_tensor("delta_rule", rows_name, in.rows, {T}, DType::i32);
}

void require_output(const Tensor& y, const DeltaRuleInputs& in) {
  require_tensor("delta_rule", "y", y, {in.qkv.shape()[0], in.heads.values()}, in.qkv.type());
  for (const Tensor& input : {in.qkv, in.a, in.b}) {
    require(!overlap(y, input), "delta_rule: y must overlap no input");
  }
}

void require_gradients(const DeltaRuleGradients& d, const Tensor& dy, const DeltaRuleInputs& in) {
  const DType type = in.qkv.type();
  require_tensor("delta_rule", "dy", dy, {in.qkv.shape()[0], in.heads.values()}, type);
  require_tensor("delta_rule", "dqkv", d.dqkv, in.qkv.shape(), type);
  require_tensor("delta_rule", "da", d.da, in.a.shape(), type);
  require_tensor("delta_rule", "db", d.db, in.b.shape(), type);
  for (const Tensor& output : {d.dqkv, d.da, d.db}) {
    for (const Tensor& input : {in.qkv, in.a, in.b, dy}) {
      require(!overlap(output, input), "delta_rule: a gradient must overlap no input");
    }
  }
}

}  // namespace

Cost delta_rule_cost(std::int64_t rows, const DeltaRuleHeads& heads, DType type) {
  const auto T = static_cast<double>(rows);
  const auto width = static_cast<double>(heads.width() + heads.values() + 2 * heads.value_heads);
  return {T * products_per_row(heads, 3, 2, 3), T * width * element_bytes(type)};
}

// With the forward's products but those of its output.
Cost delta_rule_backward_cost(std::int64_t rows, const DeltaRuleHeads& heads, DType type) {
  const auto T = static_cast<double>(rows);
  const auto width =
      static_cast<double>(2 * heads.width() + heads.values() + 4 * heads.value_heads);
  return {T * products_per_row(heads, 2 + 5, 1 + 4, 2 + 6), T * width * element_bytes(type)};
}

void record_delta_rule(Batch& batch, const Tensor& y, const DeltaRuleInputs& in) {
  require_delta_rule(in, "first");
  require_output(y, in);
  const DeltaRuleForward forward{y, in, {}};
  choose_delta_rule(batch.context(), forward).record(batch, forward);
}

void record_delta_rule_backward(Batch& batch, const DeltaRuleGradients& d, const Tensor& dy,
                                const DeltaRuleInputs& in) {
  require_delta_rule(in, "first");
  require_gradients(d, dy, in);
  const DeltaRuleBackward backward{d, dy, in};
  choose_delta_rule_backward(batch.context(), backward).record(batch, backward);
}

void record_delta_rule_cached(Batch& batch, const Tensor& y, const Tensor& state,
                              const DeltaRuleInputs& in) {
  require_delta_rule(in, "positions");
  require_output(y, in);
  require_tensor("delta_rule", "state", state,
                 {in.heads.value_heads, in.heads.key_dim, in.heads.value_dim});
  const DeltaRuleForward forward{y, in, state};
  choose_delta_rule(batch.context(), forward).record(batch, forward);
}

}  // namespace clora
