#include "model/fuse.hpp"

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "lora/merge.hpp"
#include "lora/safetensors.hpp"
#include "model/dequantise.hpp"
#include "model/rotary_order.hpp"
#include "runtime/error.hpp"
#include "runtime/file.hpp"

namespace clora {
namespace {

constexpr std::string_view kWeight = ".weight";

std::vector<float> fused_values(const WeightView& view, const ModelConfig& config,
                                const Adapter& adapter) {
  const auto elements = static_cast<std::size_t>(view.shape.elements());
  std::vector<float> values =
      needs_reordering(config, view.name)
          ? to_float(view.type, in_half_split_order(view, config.head_width), elements)
          : to_float(view.type, view.bytes, elements);
  std::string_view path = view.name;
  if (path.ends_with(kWeight)) path.remove_suffix(kWeight.size());
  if (adapter.find(path) != nullptr) merge_into(values, read_lora(adapter, path));
  return values;
}

}  // namespace

void write_fused_model(const WeightFiles& base, const Adapter& adapter,
                       const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) {
    fail(ErrorCode::io, "fuse: folder '{}' cannot be made: {}", folder.string(), error.message());
  }
  const std::vector<WeightView> views = base.all();
  std::vector<StoredTensor> descriptions;
  for (const WeightView& view : views) {
    descriptions.push_back({view.name, DType::f32, view.shape, {}});
  }
  write_safetensors(
      folder / "model.safetensors", descriptions, {{"format", "pt"}}, [&](std::size_t i) {
        const std::vector<float> values = fused_values(views[i], base.config(), adapter);
        const auto bytes = std::as_bytes(std::span(values));
        return std::vector<std::byte>(bytes.begin(), bytes.end());
      });
  nlohmann::ordered_json json = to_hugging_face_json(base.config());
  json["torch_dtype"] = "float32";
  const std::string config = json.dump(2) + "\n";
  write_file_atomically(folder / "config.json", std::as_bytes(std::span(config)));
}

}  // namespace clora
