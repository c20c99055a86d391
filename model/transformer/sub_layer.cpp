#include "model/transformer/sub_layer.hpp"

#include <type_traits>

#include "model/transformer/attention_layer.hpp"
#include "model/transformer/delta_net_layer.hpp"
#include "model/transformer/experts_layer.hpp"
#include "model/transformer/feed_forward_layer.hpp"
#include "model/transformer/mlp_layer.hpp"
#include "model/transformer/short_conv_layer.hpp"

namespace clora {
namespace {

// The one of these layers that is constructed from such weights.
template <class Layer, class... Others, class Weights>
std::unique_ptr<SubLayer> make_of(Recording& recording, const Weights& weights) {
  if constexpr (std::is_constructible_v<Layer, Recording&, const Weights&>) {
    return std::make_unique<Layer>(recording, weights);
  } else {
    return make_of<Others...>(recording, weights);
  }
}

// Of layers that keep nothing.
template <class Spec>
std::vector<Shape> shapes(const Spec&, std::int64_t) {
  return {};
}
std::vector<Shape> shapes(const AttentionLayerSpec& spec, std::int64_t positions) {
  return AttentionLayer::cache_shapes(spec, positions);
}
std::vector<Shape> shapes(const ShortConvLayerSpec& spec, std::int64_t) {
  return ShortConvLayer::cache_shapes(spec);
}
std::vector<Shape> shapes(const DeltaNetLayerSpec& spec, std::int64_t) {
  return DeltaNetLayer::cache_shapes(spec);
}

}  // namespace

std::vector<Shape> cache_shapes(const SubLayerSpec& layer, std::int64_t positions) {
  return std::visit([&](const auto& f) { return shapes(f, positions); }, layer.f);
}

DType cache_type(const SubLayerSpec& layer, DType kv_cache_type) {
  return std::holds_alternative<AttentionLayerSpec>(layer.f) ? kv_cache_type : DType::f32;
}

std::unique_ptr<SubLayer> make_sub_layer(Recording& recording, const SubLayerWeights& weights) {
  return std::visit(
      [&](const auto& f) {
        return make_of<AttentionLayer, DeltaNetLayer, ExpertsLayer, FeedForwardLayer, MlpLayer,
                       ShortConvLayer>(recording, f);
      },
      weights.f);
}

}  // namespace clora
