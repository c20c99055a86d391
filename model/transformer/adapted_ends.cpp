#include "model/transformer/adapted_ends.hpp"

#include "lora/end_modules.hpp"

namespace clora {
namespace {

// Of the head's dropout: none of the numbers of linear layers, which are fewer.
constexpr std::uint32_t kHeadSite = (1U << 16U) - 1;

}  // namespace

HeadAdapter head_adapter_of(const Adapter* adapter, const Tensor& seed_and_step) {
  if (adapter == nullptr) return {};
  HeadAdapter head{.lora = adapter->weights(kHeadPath)};
  if (head.lora.empty() || seed_and_step.empty()) return head;
  head.gradients = adapter->gradients(kHeadPath);
  head.lora.dropout = {.probability = static_cast<float>(adapter->config().dropout),
                       .seed_and_step = seed_and_step,
                       .site = kHeadSite};
  return head;
}

LoraWeights embedding_adapter_of(const Adapter* adapter) {
  return adapter == nullptr ? LoraWeights() : adapter->weights(kEmbeddingsPath);
}

}  // namespace clora
