#include "model/fuse.hpp"

#include <cstring>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "lora/merge.hpp"
#include "lora/safetensors.hpp"
#include "model/dequantise.hpp"
#include "runtime/error.hpp"
#include "runtime/file.hpp"

namespace clora {
namespace {

constexpr std::string_view kWeight = ".weight";

// Of weights and biases of q and k, whose rows follow the rotary pairs.
bool follows_rotary_pairs(std::string_view name) {
  for (const std::string_view part :
       {".q_proj.weight", ".k_proj.weight", ".q_proj.bias", ".k_proj.bias"}) {
    if (name.ends_with(part)) return true;
  }
  return false;
}

// Rows of an interleaved q or k in the half-split order.
std::vector<float> in_half_split_order(const std::vector<float>& values, std::int64_t rows,
                                       std::int64_t head_width) {
  std::vector<float> ordered(values.size());
  const std::size_t width = values.size() / static_cast<std::size_t>(rows);
  for (std::int64_t row = 0; row < rows; ++row) {
    const auto from = static_cast<std::size_t>(half_split_source_row(row, head_width)) * width;
    std::memcpy(&ordered[static_cast<std::size_t>(row) * width], &values[from],
                width * sizeof(float));
  }
  return ordered;
}

std::vector<float> fused_values(const WeightView& view, const ModelConfig& config,
                                const Adapter& adapter) {
  std::vector<float> values =
      to_float(view.type, view.bytes, static_cast<std::size_t>(view.shape.elements()));
  std::string_view path = view.name;
  if (path.ends_with(kWeight)) path.remove_suffix(kWeight.size());
  if (adapter.find(path) != nullptr) merge_into(values, read_lora(adapter, path));
  if (config.rope_layout == RopeLayout::interleaved && follows_rotary_pairs(view.name)) {
    values = in_half_split_order(values, view.shape[0], config.head_width);
  }
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
  const std::string config = to_hugging_face_json(base.config()).dump(2) + "\n";
  write_file_atomically(folder / "config.json", std::as_bytes(std::span(config)));
}

}  // namespace clora
