#include "model/transformer/delta_net_layer.hpp"

#include <array>

#include "clora/ops/rowwise/swiglu.hpp"

namespace clora {
namespace {

DeltaRuleHeads heads_of(const DeltaNetLayerSpec& spec) {
  return {.key_heads = spec.key_heads,
          .value_heads = spec.value_heads,
          .key_dim = spec.key_dim,
          .value_dim = spec.value_dim};
}

}  // namespace

DeltaNetLayer::DeltaNetLayer(Recording& recording, const DeltaNetWeights& weights)
    : recording_(recording),
      weights_(weights),
      heads_(heads_of(weights.spec)),
      conv_{.kind = ShortConvKind::silu, .taps = weights.taps},
      in_linears_(recording, weights.in,
                  {heads_.width(), heads_.values(), heads_.value_heads, heads_.value_heads}),
      out_linear_(recording.adapted(weights.out)),
      norm_(recording.adapted(weights.norm)) {}

std::vector<Shape> DeltaNetLayer::cache_shapes(const DeltaNetLayerSpec& spec) {
  return {{spec.taps.taps - 1, spec.taps.width}, {spec.value_heads, spec.key_dim, spec.value_dim}};
}

bool DeltaNetLayer::has_adapter() const {
  return in_linears_.has_adapter() || out_linear_.is_trained() || norm_.is_trained();
}

Tensor DeltaNetLayer::each_head(const Tensor& x) const {
  return x.reshape({recording_.rows() * heads_.value_heads, heads_.value_dim});
}

DeltaRuleInputs DeltaNetLayer::delta_inputs(const Tensor& rows) const {
  return {.heads = heads_,
          .qkv = conved_,
          .a = a_,
          .b = b_,
          .rate = weights_.rate,
          .dt_bias = weights_.dt_bias,
          .rows = rows};
}

void DeltaNetLayer::record_states() {
  Batch& batch = recording_.batch();
  conved_ = recording_.like(qkv_, "convolved");
  output_ = recording_.like(z_, "delta rule");
  const CacheTensors* cache = recording_.cache(weights_.cache_index);
  if (cache == nullptr) {
    const Tensor& first = recording_.row_inputs().first;
    record_short_conv(batch, conved_, qkv_, conv_, first);
    return record_delta_rule(batch, output_, delta_inputs(first));
  }
  const Tensor& positions = recording_.row_inputs().positions;
  record_short_conv_cached(batch, conved_, cache->at(0), qkv_, conv_, positions);
  record_delta_rule_cached(batch, output_, cache->at(1), delta_inputs(positions));
}

void DeltaNetLayer::record_forward(const Tensor& y, const ProductInput& h, const Tensor& residual) {
  const std::vector<Tensor> inputs = in_linears_.record_forward(h);
  qkv_ = inputs[0];
  z_ = inputs[1];
  b_ = inputs[2];
  a_ = inputs[3];
  record_states();
  normed_ =
      recording_.norm(each_head(output_), norm_.weights, "delta rule normed").reshape(z_.shape());
  gated_ = recording_.like(z_, "gated delta rule");
  record_swiglu(recording_.batch(), gated_, z_, normed_);
  record_linear(recording_, out_linear_, y, gated_, residual);
}

void DeltaNetLayer::record_gate_backward(const Tensor& dz, const Tensor& doutput,
                                         const Tensor& dgated) {
  Batch& batch = recording_.batch();
  record_swiglu_backward(batch, dz, doutput, dgated, z_, normed_);
  const Tensor d = each_head(doutput);
  record_norm_backward(batch, d, d, each_head(output_), norm_, {}, recording_.epsilon());
}

std::vector<PendingGradient> DeltaNetLayer::record_backward(const Tensor& dh, const Tensor& dy) {
  const Tensor dgated = recording_.like(gated_, "d gated delta rule");
  const auto pending =
      record_linears_dx(recording_, dgated, std::array{LinearGradient{&out_linear_, dy}});
  record_linears_da(recording_, gated_, pending);
  const Tensor dz = recording_.like(z_, "dz"), doutput = recording_.like(z_, "d delta rule");
  record_gate_backward(dz, doutput, dgated);
  const Tensor dconved = recording_.like(qkv_, "d convolved"), dqkv = recording_.like(qkv_, "dqkv");
  const Tensor da = recording_.like(a_, "da"), db = recording_.like(b_, "db");
  const Tensor& first = recording_.row_inputs().first;
  record_delta_rule_backward(recording_.batch(), {dconved, da, db}, doutput, delta_inputs(first));
  record_short_conv_backward(recording_.batch(), dqkv, dconved, qkv_, conv_, first);
  return in_linears_.record_backward(dh, std::array{dqkv, dz, db, da});
}

}  // namespace clora
