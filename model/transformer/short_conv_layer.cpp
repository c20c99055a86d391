#include "model/transformer/short_conv_layer.hpp"

#include <array>

namespace clora {

ShortConvLayer::ShortConvLayer(Recording& recording, const ShortConvWeights& weights)
    : recording_(recording),
      weights_(weights),
      conv_{.kind = ShortConvKind::gated, .taps = weights.taps, .bias = weights.bias},
      in_linear_(recording.adapted(weights.in)),
      out_linear_(recording.adapted(weights.out)) {}

std::vector<Shape> ShortConvLayer::cache_shapes(const ShortConvLayerSpec& spec) {
  return {{spec.taps.taps - 1, spec.taps.width}};
}

bool ShortConvLayer::has_adapter() const {
  return in_linear_.is_trained() || out_linear_.is_trained();
}

void ShortConvLayer::record_forward(const Tensor& y, const ProductInput& h,
                                    const Tensor& residual) {
  Batch& batch = recording_.batch();
  bcx_ = record_linears(recording_, h, std::array{&in_linear_}).front();
  conved_ = recording_.activation({recording_.rows(), weights_.spec.taps.width}, "short conv");
  const CacheTensors* cache = recording_.cache(weights_.cache_index);
  if (cache == nullptr) {
    record_short_conv(batch, conved_, bcx_, conv_, recording_.row_inputs().first);
  } else {
    record_short_conv_cached(batch, conved_, cache->at(0), bcx_, conv_,
                             recording_.row_inputs().positions);
  }
  record_linear(recording_, out_linear_, y, conved_, residual);
}

std::vector<PendingGradient> ShortConvLayer::record_backward(const Tensor& dh, const Tensor& dy) {
  const Tensor dconved = recording_.like(conved_, "d short conv");
  const auto pending =
      record_linears_dx(recording_, dconved, std::array{LinearGradient{&out_linear_, dy}});
  record_linears_da(recording_, conved_, pending);
  const Tensor dbcx = recording_.like(bcx_, "d in_proj");
  record_short_conv_backward(recording_.batch(), dbcx, dconved, bcx_, conv_,
                             recording_.row_inputs().first);
  return record_linears_dx(recording_, dh, std::array{LinearGradient{&in_linear_, dbcx}});
}

}  // namespace clora
