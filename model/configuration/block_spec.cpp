#include "clora/model/configuration/block_spec.hpp"

namespace clora {
namespace {

void add_tensors(std::vector<TensorSpec>& tensors, const AttentionLayerSpec& attention) {
  if (attention.qkv) {
    tensors.emplace_back(&*attention.qkv);
  } else {
    tensors.insert(tensors.end(), {&attention.q, &attention.k, &attention.v});
  }
  for (const auto* norm : {&attention.q_norm, &attention.k_norm}) {
    if (norm->has_value()) tensors.emplace_back(&**norm);
  }
  tensors.emplace_back(&attention.o);
}

void add_tensors(std::vector<TensorSpec>& tensors, const FeedForwardLayerSpec& feed_forward) {
  if (feed_forward.gate_up) {
    tensors.emplace_back(&*feed_forward.gate_up);
  } else {
    tensors.insert(tensors.end(), {&feed_forward.gate, &feed_forward.up});
  }
  tensors.emplace_back(&feed_forward.down);
}

void add_tensors(std::vector<TensorSpec>& tensors, const ShortConvLayerSpec& layer) {
  tensors.insert(tensors.end(), {&layer.in, &layer.taps});
  if (layer.bias) tensors.emplace_back(&*layer.bias);
  tensors.emplace_back(&layer.out);
}

void add_tensors(std::vector<TensorSpec>& tensors, const DeltaNetLayerSpec& layer) {
  tensors.insert(tensors.end(), {&layer.qkv, &layer.z, &layer.b, &layer.a, &layer.taps, &layer.rate,
                                 &layer.dt_bias, &layer.norm, &layer.out});
}

void add_tensors(std::vector<TensorSpec>& tensors, const MlpLayerSpec& layer) {
  tensors.insert(tensors.end(), {&layer.up, &layer.down});
}

void add_tensors(std::vector<TensorSpec>& tensors, const ExpertsLayerSpec& experts) {
  tensors.emplace_back(&experts.router);
  for (const auto* role : {&experts.gate, &experts.up, &experts.down}) {
    for (const LinearSpec& expert : *role) tensors.emplace_back(&expert);
  }
}

}  // namespace

std::vector<TensorSpec> tensors_of(const SubLayerSpec& layer) {
  std::vector<TensorSpec> tensors;
  if (layer.norm.exists()) tensors.emplace_back(&layer.norm);
  std::visit([&](const auto& f) { add_tensors(tensors, f); }, layer.f);
  if (layer.post_norm) tensors.emplace_back(&*layer.post_norm);
  if (layer.sum_norm) tensors.emplace_back(&*layer.sum_norm);
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
