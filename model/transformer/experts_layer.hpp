// ExpertsLayer: experts in place of a block's feed-forward in a recorded pass (ExpertsLayerSpec),
//   f(h) = the sum over the chosen experts of weight * down(swiglu(gate(h), up(h))), or with geglu.
//
// The gradient of the loss that balances the load of experts joins that of the router's logits, if
// the pass computes it.
//
// The device chooses the experts of each row and plans the products over them
// (ops/experts/router.hpp), so a recorded pass holds for any outcome.
//
// Like the feed-forward, the backward recomputes swiglu's output. It keeps the outputs of the
// experts, which the gradients of the weights need, and h if experts have adapters.
#pragma once

#include "clora/ops/experts/combine.hpp"
#include "model/transformer/adapted_experts.hpp"
#include "model/transformer/adapted_linears.hpp"
#include "model/transformer/sub_layer.hpp"

namespace clora {

class ExpertsLayer final : public SubLayer {
 public:
  ExpertsLayer(Recording& recording, const ExpertsWeights& weights);

  bool has_adapter() const override;
  void record_forward(const Tensor& y, const ProductInput& h, const Tensor& residual) override;
  std::vector<PendingGradient> record_backward(const Tensor& dh, const Tensor& dy) override;

 private:
  void route(const Tensor& h);
  // dgate_ and dup_ from dy, and the adapter gradients of down; returns the gradient of the
  // weights.
  Tensor backward_of_outputs(const Tensor& dy);
  std::vector<PendingGradient> backward_of_router(const Tensor& dh, const Tensor& dweights);

  Recording& recording_;
  const ExpertsLayerSpec& spec_;
  RouterWeights router_weights_;
  AdaptedLinear router_;
  AdaptedExperts gate_, up_, down_;
  // Of the forward.
  Tensor h_;       // [T, D]
  Tensor logits_;  // [T, X]
  Routing routing_;
  Tensor gate_outputs_, up_outputs_;  // [S, F]
  Tensor outputs_;                    // [S, D], of the experts
  Tensor dgate_, dup_;                // [S, F], of the backward
};

}  // namespace clora
