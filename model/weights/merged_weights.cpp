#include "model/weights/merged_weights.hpp"

#include <algorithm>
#include <cmath>
#include <string>

#include "clora/lora/merge.hpp"
#include "lora/end_modules.hpp"
#include "model/weights/stored_order.hpp"
#include "runtime/fail.hpp"

namespace clora {
namespace {

constexpr std::string_view kWeight = ".weight";

std::string weight_of(std::string_view path) { return fmt::format("{}{}", path, kWeight); }

std::string_view module_of(const WeightView& view) {
  std::string_view path = view.name;
  if (path.ends_with(kWeight)) path.remove_suffix(kWeight.size());
  return path;
}

void require_finite(std::span<const float> values, std::string_view name) {
  const auto bad = std::ranges::find_if_not(values, [](float x) { return std::isfinite(x); });
  if (bad == values.end()) return;
  fail(ErrorCode::invalid_data, "fuse: tensor '{}' would contain {} at element {}", name, *bad,
       bad - values.begin());
}

bool changes_module(const Adapter& adapter, std::string_view path) {
  return adapter.find(path) != nullptr || !adapter.saved(weight_of(path)).empty();
}

}  // namespace

bool MergedWeights::unties() const {
  return adapter_ != nullptr && base_.config().tied_head &&
         (changes_module(*adapter_, kEmbeddingsPath) || changes_module(*adapter_, kHeadPath));
}

ModelConfig MergedWeights::config() const {
  ModelConfig config = base_.config();
  if (unties()) config.tied_head = false;
  return config;
}

std::vector<WeightView> MergedWeights::views() const {
  std::vector<WeightView> views = base_.all();
  if (!unties()) return views;
  const ModelConfig& config = base_.config();
  const std::string head = weight_of(kHeadPath);
  views.push_back(base_.get(head, {config.vocabulary, config.hidden_size}));
  views.back().name = head;
  return views;
}

bool MergedWeights::changes(const WeightView& view) const {
  return adapter_ != nullptr &&
         (!adapter_->saved(view.name).empty() ||
          (view.name.ends_with(kWeight) && adapter_->find(module_of(view)) != nullptr));
}

std::vector<float> MergedWeights::values(const WeightView& view) const {
  const Tensor saved = adapter_ != nullptr ? adapter_->saved(view.name) : Tensor();
  std::vector<float> values =
      saved.empty() ? hugging_face_values(view) : adapter_->context().read<float>(saved);
  const std::string_view path = module_of(view);
  const bool adapted = view.name.ends_with(kWeight) && adapter_ != nullptr;
  if (adapted && adapter_->find(path) != nullptr) merge_into(values, read_lora(*adapter_, path));
  require_finite(values, view.name);
  return values;
}

void stop_if_cancelled(const std::function<bool()>& go_on, std::string_view who) {
  if (go_on && !go_on()) fail(ErrorCode::cancelled, "{}: stopped", who);
}

}  // namespace clora
