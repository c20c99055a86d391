#include "clora/model/weights/fuse.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "clora/lora/merge.hpp"
#include "clora/lora/safetensors.hpp"
#include "clora/runtime/files/file.hpp"
#include "clora/runtime/files/json.hpp"
#include "lora/end_modules.hpp"
#include "model/weights/stored_order.hpp"
#include "runtime/fail.hpp"
#include "runtime/files/disk_space.hpp"
#include "runtime/make_folder.hpp"

namespace clora {
namespace {

constexpr std::string_view kWeight = ".weight";

void require_finite(std::span<const float> values, std::string_view name) {
  const auto bad = std::ranges::find_if_not(values, [](float x) { return std::isfinite(x); });
  if (bad == values.end()) return;
  fail(ErrorCode::invalid_data, "fuse: tensor '{}' would contain {} at element {}", name, *bad,
       bad - values.begin());
}

// Whether embeddings and head are one matrix in the base model, but two in the fused one.
bool unties(const WeightFiles& base, const Adapter& adapter) {
  const auto changes = [&](std::string_view path) {
    return adapter.find(path) != nullptr ||
           !adapter.saved(fmt::format("{}{}", path, kWeight)).empty();
  };
  return base.config().tied_head && (changes(kEmbeddingsPath) || changes(kHeadPath));
}

// All tensors of the fused model.
std::vector<WeightView> fused_views(const WeightFiles& base, const Adapter& adapter) {
  std::vector<WeightView> views = base.all();
  if (!unties(base, adapter)) return views;
  const ModelConfig& config = base.config();
  views.push_back(
      base.get(fmt::format("{}{}", kHeadPath, kWeight), {config.vocabulary, config.hidden_size}));
  views.back().name = fmt::format("{}{}", kHeadPath, kWeight);
  return views;
}

std::vector<float> fused_values(const WeightView& view, const Adapter& adapter) {
  const Tensor saved = adapter.saved(view.name);
  std::vector<float> values =
      saved.empty() ? hugging_face_values(view) : adapter.context().read<float>(saved);
  std::string_view path = view.name;
  if (path.ends_with(kWeight)) path.remove_suffix(kWeight.size());
  if (adapter.find(path) != nullptr) merge_into(values, read_lora(adapter, path));
  require_finite(values, view.name);
  return values;
}

void stop_if_cancelled(const std::function<bool()>& go_on) {
  if (go_on && !go_on()) fail(ErrorCode::cancelled, "fuse: stopped");
}

}  // namespace

void require_finite_fusion(const WeightFiles& base, const Adapter& adapter,
                           const std::function<bool()>& go_on) {
  for (const WeightView& view : fused_views(base, adapter)) {
    stop_if_cancelled(go_on);
    fused_values(view, adapter);
  }
}

void write_fused_model(const WeightFiles& base, const Adapter& adapter,
                       const std::filesystem::path& folder, const std::function<bool()>& go_on) {
  const std::vector<WeightView> views = fused_views(base, adapter);
  std::vector<StoredTensor> descriptions;
  std::uintmax_t bytes = 0;
  for (const WeightView& view : views) {
    descriptions.push_back({view.name, DType::f32, view.shape, {}});
    bytes += static_cast<std::uintmax_t>(view.shape.elements()) * sizeof(float);
  }
  require_free_space(folder, bytes, "fuse");
  make_folder(folder, "fuse");
  write_safetensors(folder / "model.safetensors", descriptions, {{"format", "pt"}},
                    [&](std::size_t i) {
                      stop_if_cancelled(go_on);
                      const std::vector<float> values = fused_values(views[i], adapter);
                      const auto raw = std::as_bytes(std::span(values));
                      return std::vector<std::byte>(raw.begin(), raw.end());
                    });
  ModelConfig fused = base.config();
  if (unties(base, adapter)) fused.tied_head = false;
  nlohmann::ordered_json json = to_hugging_face_json(fused);
  json["torch_dtype"] = "float32";
  const std::string config = json_text(json, 2) + "\n";
  write_file_atomically(folder / "config.json", std::as_bytes(std::span(config)));
}

}  // namespace clora
