// DeltaNetLayer: Gated DeltaNet of a block in a recorded pass,
//   q, k, v = silu(conv(qkv(h)));  o = delta_rule(q, k, v, a(h), b(h));  f(h) = out(norm(o) *
//   silu(z(h)))
// within a document, or over a cache of the last inputs of the convolution and of the states.
//
// The backward recomputes the chunks' states: keeping them would take more memory than all else.
#pragma once

#include "clora/ops/recurrent/delta_rule.hpp"
#include "clora/ops/recurrent/short_conv.hpp"
#include "model/transformer/adapted_linears.hpp"
#include "model/transformer/sub_layer.hpp"

namespace clora {

class DeltaNetLayer final : public SubLayer {
 public:
  DeltaNetLayer(Recording& recording, const DeltaNetWeights& weights);

  // The state of record_short_conv_cached(), and that of record_delta_rule_cached().
  static std::vector<Shape> cache_shapes(const DeltaNetLayerSpec& spec);

  bool has_adapter() const override;
  void record_forward(const Tensor& y, const ProductInput& h, const Tensor& residual) override;
  std::vector<PendingGradient> record_backward(const Tensor& dh, const Tensor& dy) override;

 private:
  // [T, values] by value heads: [T * value heads, value dim].
  Tensor each_head(const Tensor& x) const;
  DeltaRuleInputs delta_inputs(const Tensor& rows) const;
  void record_states();
  // The gradients of z and of the delta rule's output, from that of f's last linear layer.
  void record_gate_backward(const Tensor& dz, const Tensor& doutput, const Tensor& dgated);

  Recording& recording_;
  const DeltaNetWeights& weights_;
  DeltaRuleHeads heads_;
  ShortConv conv_;
  JoinedLinears in_linears_;
  AdaptedLinear out_linear_;
  AdaptedNorm norm_;
  // Of the forward.
  Tensor qkv_, conved_;     // [T, heads_.width()], before and after the convolution
  Tensor z_, b_, a_;        // [T, values], [T, value heads] twice
  Tensor output_, normed_;  // [T, values]: of the delta rule, and its norm
  Tensor gated_;            // [T, values]: normed * silu(z)
};

}  // namespace clora
