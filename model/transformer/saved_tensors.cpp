#include "clora/model/transformer/saved_tensors.hpp"

#include <algorithm>
#include <string>

#include "lora/end_modules.hpp"
#include "model/weights/stored_order.hpp"
#include "runtime/fail.hpp"

namespace clora {
namespace {

void add_norm(std::vector<SavedTensor>& tensors, const std::string& prefix, const NormSpec& norm) {
  if (!norm.exists()) return;
  const std::string path = prefix + norm.names.hugging_face;
  tensors.push_back({path + ".weight", {norm.width}});
  if (norm.has_bias) tensors.push_back({path + ".bias", {norm.width}});
}

std::string weight_name(std::string_view path) { return fmt::format("{}.weight", path); }

// The base model's tensor; the embeddings for the head of a tied model.
const WeightView* stored_of(const LanguageModel& model, std::string_view name) {
  const std::vector<WeightView>& stored = model.stored_weights();
  auto at = std::ranges::find(stored, name, &WeightView::name);
  if (at == stored.end() && model.config().tied_head && name == weight_name(kHeadPath)) {
    at = std::ranges::find(stored, weight_name(kEmbeddingsPath), &WeightView::name);
  }
  return at == stored.end() ? nullptr : &*at;
}

}  // namespace

std::vector<SavedTensor> savable_tensors(const ModelConfig& config) {
  std::vector<SavedTensor> tensors;
  const Shape matrix{config.vocabulary, config.hidden_size};
  const bool is_decoder = config.has_head && !config.embedding.norm.exists();
  if (is_decoder) tensors.push_back({weight_name(kEmbeddingsPath), matrix});
  add_norm(tensors, "", config.embedding.norm);
  for (std::size_t i = 0; i < config.blocks.size(); ++i) {
    const std::string prefix = fmt::format("{}{}.", config.block_prefix, i);
    for (const SubLayerSpec& layer : config.blocks[i]) {
      for (const TensorSpec& spec : tensors_of(layer)) {
        if (const auto* norm = std::get_if<const NormSpec*>(&spec)) {
          add_norm(tensors, prefix, **norm);
        }
      }
    }
  }
  add_norm(tensors, "", config.final_norm);
  if (is_decoder) tensors.push_back({weight_name(kHeadPath), matrix});
  return tensors;
}

void initialise_saved_tensors(const LanguageModel& model, Adapter& adapter) {
  for (const SavedTensor& tensor : adapter.saved_tensors()) {
    const WeightView* view = stored_of(model, tensor.name);
    require(view != nullptr && view->shape == tensor.shape,
            "adapter: '{}' {} is trained in full, but the base model has no such tensor",
            tensor.name, tensor.shape.text());
    const std::vector<float> values = hugging_face_values(*view);
    adapter.context().write(adapter.saved(tensor.name), std::as_bytes(std::span(values)));
  }
}

}  // namespace clora
