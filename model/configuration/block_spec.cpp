#include "clora/model/configuration/block_spec.hpp"

namespace clora {

std::vector<TensorSpec> tensors_of(const SubLayerSpec& layer) {
  std::vector<TensorSpec> tensors{&layer.norm};
  if (const auto* attention = std::get_if<AttentionLayerSpec>(&layer.f)) {
    tensors.insert(tensors.end(), {&attention->q, &attention->k, &attention->v});
    for (const auto* norm : {&attention->q_norm, &attention->k_norm}) {
      if (norm->has_value()) tensors.emplace_back(&**norm);
    }
    tensors.emplace_back(&attention->o);
  } else {
    const auto& feed_forward = std::get<FeedForwardLayerSpec>(layer.f);
    tensors.insert(tensors.end(), {&feed_forward.gate, &feed_forward.up, &feed_forward.down});
  }
  return tensors;
}

std::vector<const LinearSpec*> linears_of(const SubLayerSpec& layer) {
  std::vector<const LinearSpec*> linears;
  for (const TensorSpec& tensor : tensors_of(layer)) {
    if (const auto* linear = std::get_if<const LinearSpec*>(&tensor)) linears.push_back(*linear);
  }
  return linears;
}

}  // namespace clora
