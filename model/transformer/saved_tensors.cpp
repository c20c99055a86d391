#include "clora/model/transformer/saved_tensors.hpp"

#include <algorithm>
#include <string>

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

}  // namespace

std::vector<SavedTensor> savable_tensors(const ModelConfig& config) {
  std::vector<SavedTensor> tensors;
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
  return tensors;
}

void initialise_saved_tensors(const LanguageModel& model, Adapter& adapter) {
  const std::vector<WeightView>& stored = model.stored_weights();
  for (const SavedTensor& tensor : adapter.saved_tensors()) {
    const auto view = std::ranges::find(stored, tensor.name, &WeightView::name);
    require(view != stored.end() && view->shape == tensor.shape,
            "adapter: '{}' {} is trained in full, but the base model has no such tensor",
            tensor.name, tensor.shape.text());
    const std::vector<float> values = hugging_face_values(*view);
    adapter.context().write(adapter.saved(tensor.name), std::as_bytes(std::span(values)));
  }
}

}  // namespace clora
