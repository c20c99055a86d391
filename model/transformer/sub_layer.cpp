#include "model/transformer/sub_layer.hpp"

#include "model/transformer/attention_layer.hpp"
#include "model/transformer/experts_layer.hpp"
#include "model/transformer/feed_forward_layer.hpp"

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

}  // namespace

std::unique_ptr<SubLayer> make_sub_layer(Recording& recording, const SubLayerWeights& weights) {
  return std::visit([&](const auto& f) { return make(recording, f); }, weights.f);
}

}  // namespace clora
