#include "model/transformer/sub_layer.hpp"

#include "model/transformer/attention_layer.hpp"
#include "model/transformer/delta_net_layer.hpp"
#include "model/transformer/experts_layer.hpp"
#include "model/transformer/feed_forward_layer.hpp"
#include "model/transformer/mlp_layer.hpp"
#include "model/transformer/short_conv_layer.hpp"

namespace clora {
namespace {

std::unique_ptr<SubLayer> make(Recording& recording, const AttentionWeights& weights) {
  return std::make_unique<AttentionLayer>(recording, weights);
}
std::unique_ptr<SubLayer> make(Recording& recording, const FeedForwardWeights& weights) {
  return std::make_unique<FeedForwardLayer>(recording, weights);
}
std::unique_ptr<SubLayer> make(Recording& recording, const ExpertsWeights& weights) {
  return std::make_unique<ExpertsLayer>(recording, weights);
}
std::unique_ptr<SubLayer> make(Recording& recording, const ShortConvWeights& weights) {
  return std::make_unique<ShortConvLayer>(recording, weights);
}
std::unique_ptr<SubLayer> make(Recording& recording, const MlpWeights& weights) {
  return std::make_unique<MlpLayer>(recording, weights);
}

std::unique_ptr<SubLayer> make(Recording& recording, const DeltaNetWeights& weights) {
  return std::make_unique<DeltaNetLayer>(recording, weights);
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
  return std::visit([&](const auto& f) { return make(recording, f); }, weights.f);
}

}  // namespace clora
