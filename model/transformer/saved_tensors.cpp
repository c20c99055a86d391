#include "clora/model/transformer/saved_tensors.hpp"

#include <algorithm>
#include <string>

#include "lora/end_modules.hpp"
#include "model/weights/stored_order.hpp"
#include "runtime/fail.hpp"

namespace clora {
namespace {

bool is_of_experts(std::string_view path) {
  return path.find(".experts.") != std::string_view::npos;
}

// Throws if a name of modules_to_save selects the layer of experts.
void refuse_selected(const std::vector<std::string>& names, const std::string& path) {
  for (const std::string& name : names) {
    if (name.empty() || !path.ends_with(name)) continue;
    fail(ErrorCode::unsupported,
         "adapter: modules_to_save has '{}', which selects {}: layers of experts are not trained "
         "in full; name other modules, by longer ends of their paths",
         name, path);
  }
}

void add_norm(std::vector<SavedTensor>& tensors, const std::string& prefix, const NormSpec& norm) {
  if (!norm.exists()) return;
  const std::string path = prefix + norm.names.hugging_face;
  tensors.push_back({path + ".weight", {norm.width}});
  if (norm.has_bias) tensors.push_back({path + ".bias", {norm.width}});
}

void add_linear(std::vector<SavedTensor>& tensors, const std::string& prefix,
                const LinearSpec& linear) {
  const std::string path = prefix + linear.names.hugging_face;
  if (is_of_experts(path)) return;
  tensors.push_back({path + ".weight", {linear.outputs, linear.inputs}});
  if (linear.has_bias) tensors.push_back({path + ".bias", {linear.outputs}});
}

void add(std::vector<SavedTensor>& tensors, const std::string& prefix, const TensorSpec& spec) {
  if (const auto* norm = std::get_if<const NormSpec*>(&spec)) add_norm(tensors, prefix, **norm);
  if (const auto* linear = std::get_if<const LinearSpec*>(&spec)) {
    add_linear(tensors, prefix, **linear);
  }
}

// Calls f(prefix, spec) with each tensor of the blocks, in the order of computation.
template <class F>
void for_each_tensor(const ModelConfig& config, F f) {
  for (std::size_t i = 0; i < config.blocks.size(); ++i) {
    const std::string prefix = fmt::format("{}{}.", config.block_prefix, i);
    for (const SubLayerSpec& layer : config.blocks[i]) {
      for (const TensorSpec& spec : tensors_of(layer)) f(prefix, spec);
    }
  }
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
  for_each_tensor(config, [&](const std::string& prefix, const TensorSpec& spec) {
    add(tensors, prefix, spec);
  });
  add_norm(tensors, "", config.final_norm);
  if (is_decoder) tensors.push_back({weight_name(kHeadPath), matrix});
  return tensors;
}

void require_savable(const ModelConfig& model, const AdapterConfig& adapter) {
  for_each_tensor(model, [&](const std::string& prefix, const TensorSpec& spec) {
    if (const auto* linear = std::get_if<const LinearSpec*>(&spec)) {
      const std::string path = prefix + (*linear)->names.hugging_face;
      if (is_of_experts(path)) refuse_selected(adapter.modules_to_save, path);
    }
    const auto* parameter = std::get_if<const ParameterSpec*>(&spec);
    if (parameter == nullptr || adapter.biases != TrainedBiases::all) return;
    const std::string name = prefix + (*parameter)->names.hugging_face;
    if (!name.ends_with(".bias")) return;
    fail(ErrorCode::unsupported,
         "adapter: bias = \"all\" would train {}, which only biases of linear layers and norms "
         "are; use lora_only",
         name);
  });
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
