// MlpLayer: the feed-forward of an encoder in a recorded pass, f(h) = down(gelu(up(h))).
#pragma once

#include "model/transformer/adapted_linears.hpp"
#include "model/transformer/sub_layer.hpp"

namespace clora {

class MlpLayer final : public SubLayer {
 public:
  MlpLayer(Recording& recording, const MlpWeights& weights);

  bool has_adapter() const override;
  void record_forward(const Tensor& y, const ProductInput& h, const Tensor& residual) override;
  std::vector<PendingGradient> record_backward(const Tensor& dh, const Tensor& dy) override;

 private:
  Recording& recording_;
  GeluForm form_;
  AdaptedLinear up_linear_, down_linear_;
  Tensor up_;  // [T, F], of the forward: before gelu
};

}  // namespace clora
