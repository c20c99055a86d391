// ShortConvLayer: the gated short convolution of a block in a recorded pass,
//   [b, c, x] = in(h), f(h) = out(c * conv(b * x)),
// within a document, or over a cache that has the last inputs of the convolution.
#pragma once

#include "clora/ops/recurrent/short_conv.hpp"
#include "model/transformer/adapted_linears.hpp"
#include "model/transformer/sub_layer.hpp"

namespace clora {

class ShortConvLayer final : public SubLayer {
 public:
  ShortConvLayer(Recording& recording, const ShortConvWeights& weights);

  // The state of record_short_conv_cached().
  static std::vector<Shape> cache_shapes(const ShortConvLayerSpec& spec);

  bool has_adapter() const override;
  void record_forward(const Tensor& y, const ProductInput& h, const Tensor& residual) override;
  std::vector<PendingGradient> record_backward(const Tensor& dh, const Tensor& dy) override;

 private:
  Recording& recording_;
  const ShortConvWeights& weights_;
  ShortConv conv_;
  AdaptedLinear in_linear_, out_linear_;
  // Of the forward.
  Tensor bcx_;     // [T, 3 D]
  Tensor conved_;  // [T, D]: c * conv(b * x)
};

}  // namespace clora
