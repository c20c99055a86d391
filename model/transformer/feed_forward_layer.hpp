// FeedForwardLayer: the gated feed-forward of a block in a recorded pass,
//   f(h) = down(swiglu(gate(h), up(h))), or with geglu.
//
// The backward recomputes swiglu's output in the pass that computes its gradient: keeping it would
// cost a tenth of the memory of a step.
#pragma once

#include "clora/ops/rowwise/swiglu.hpp"
#include "model/transformer/adapted_linears.hpp"
#include "model/transformer/sub_layer.hpp"

namespace clora {

class FeedForwardLayer final : public SubLayer {
 public:
  FeedForwardLayer(Recording& recording, const FeedForwardWeights& weights);

  bool has_adapter() const override;
  void record_forward(const Tensor& y, const Tensor& h, const Tensor& residual) override;
  std::vector<PendingGradient> record_backward(const Tensor& dh, const Tensor& dy) override;

 private:
  SwigluSaved bf16_copies();

  Recording& recording_;
  GateFunction function_;
  JoinedLinears gate_up_linears_;
  AdaptedLinear down_linear_;
  Tensor gate_, up_;  // [T, F], of the forward; bf16 if only bf16 copies are kept
};

}  // namespace clora
