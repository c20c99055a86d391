#include "model/transformer/adapted_ends.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "clora/model/transformer/adapter_sites.hpp"
#include "lora/end_modules.hpp"
#include "runtime/fail.hpp"

namespace clora {
namespace {

// Of the head's dropout: none of the numbers of linear layers, which are fewer.
constexpr std::uint32_t kHeadSite = (1U << 16U) - 1;

// Empty if the adapter, which may be null, does not train the module's weight in full.
Tensor saved_weight_of(const Adapter* adapter, std::string_view path) {
  return adapter == nullptr ? Tensor() : adapter->saved(fmt::format("{}.weight", path));
}

}  // namespace

Weight head_of(const LanguageModel& model, const Adapter* adapter) {
  const Tensor saved = saved_weight_of(adapter, kHeadPath);
  return saved.empty() ? model.head() : Weight(saved);
}

Weight embeddings_of(const LanguageModel& model, const Adapter* adapter) {
  const Tensor saved = saved_weight_of(adapter, kEmbeddingsPath);
  return saved.empty() ? model.embeddings() : Weight(saved);
}

Tensor embeddings_gradient_of(const Adapter* adapter) {
  if (adapter == nullptr) return {};
  return adapter->saved_gradient(fmt::format("{}.weight", kEmbeddingsPath));
}

HeadAdapter head_adapter_of(const Adapter* adapter, const Tensor& seed_and_step) {
  if (adapter == nullptr) return {};
  HeadAdapter head{.lora = adapter->weights(kHeadPath)};
  if (seed_and_step.empty()) return head;
  head.dhead = adapter->saved_gradient(fmt::format("{}.weight", kHeadPath));
  if (head.lora.empty()) return head;
  head.gradients = adapter->gradients(kHeadPath);
  head.lora.dropout = {.probability = static_cast<float>(adapter->config().dropout),
                       .seed_and_step = seed_and_step,
                       .site = kHeadSite};
  return head;
}

LoraWeights embedding_adapter_of(const Adapter* adapter) {
  return adapter == nullptr ? LoraWeights() : adapter->weights(kEmbeddingsPath);
}

Shape adapted_shape(const LanguageModel& model, std::string_view path) {
  if (const LinearLayer* linear = model.find_linear(path)) return linear->weights.w.shape();
  const std::vector<AdapterSite> sites = all_adapter_sites(model.config());
  const auto at = std::ranges::find(sites, path, &AdapterSite::path);
  require(at != sites.end(), "model: it has no module {} that can be adapted", path);
  return {at->outputs, at->inputs};
}

}  // namespace clora
