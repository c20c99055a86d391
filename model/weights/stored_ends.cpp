#include "clora/model/weights/stored_ends.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <span>

#include "lora/end_modules.hpp"
#include "lora/hub_cache.hpp"
#include "lora/peft_tensors.hpp"
#include "model/weights/stored_order.hpp"
#include "runtime/fail.hpp"

namespace clora {
namespace {

// The weight of a module; that of the embeddings is the head of a tied model.
const WeightView* weight_of(const std::vector<WeightView>& base, std::string_view path) {
  for (const std::string_view each : {path, kEmbeddingsPath}) {
    const auto at = std::ranges::find(base, fmt::format("{}.weight", each), &WeightView::name);
    if (at != base.end()) return &*at;
  }
  return nullptr;
}

// The largest |got - want| / |want| of a row that is the same up to rounding.
double tolerance_of(DType type) { return facts_of(type).block_elements > 1 ? 0.25 : 1.0 / 128; }

bool is_near(std::span<const float> got, std::span<const float> want, double tolerance) {
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    const double d = double{got[i]} - double{want[i]};
    difference += d * d;
    norm += double{want[i]} * double{want[i]};
  }
  return difference <= tolerance * tolerance * norm;
}

void require_same(const SafetensorsFile& file, const StoredTensor& tensor, const WeightView& base) {
  const std::string who =
      fmt::format("adapter '{}': tensor '{}'", file.path().string(), tensor.name);
  if (tensor.shape != base.shape) {
    fail(ErrorCode::unsupported,
         "{} is {}, and the base model's is {}; add the tokens to the base model's files before "
         "the adapter is used",
         who, tensor.shape.text(), base.shape.text());
  }
  const std::vector<float> got = peft_values(file, tensor), want = hugging_face_values(base);
  const auto width = static_cast<std::size_t>(base.shape[1]);
  const double tolerance = tolerance_of(base.type);
  for (std::size_t row = 0; row < want.size() / width; ++row) {
    const std::span of_got = std::span(got).subspan(row * width, width);
    if (is_near(of_got, std::span(want).subspan(row * width, width), tolerance)) continue;
    fail(ErrorCode::unsupported,
         "{} differs from the base model's in row {}; use the base model that the adapter was "
         "trained with",
         who, row);
  }
}

// Only PEFT's format has such matrices.
std::optional<std::filesystem::path> tensor_file_of(const std::filesystem::path& adapter) {
  const std::filesystem::path path = resolve_hub_path(adapter) / kPeftTensorFile;
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return std::nullopt;
  return path;
}

}  // namespace

bool has_stored_ends(const std::filesystem::path& adapter) {
  const auto path = tensor_file_of(adapter);
  if (!path) return false;
  const SafetensorsFile file = SafetensorsFile::open(*path);
  return std::ranges::any_of(
      file.names(), [](const std::string& name) { return path_of_stored_end(name).has_value(); });
}

void require_stored_ends(const std::filesystem::path& adapter,
                         const std::vector<WeightView>& base) {
  const auto tensors = tensor_file_of(adapter);
  if (!tensors) return;
  const SafetensorsFile file = SafetensorsFile::open(*tensors);
  for (const std::string& name : file.names()) {
    const std::optional<std::string> path = path_of_stored_end(name);
    if (!path) continue;
    const WeightView* weight = weight_of(base, *path);
    require(weight != nullptr, "adapter '{}': the base model has no weight for tensor '{}'",
            file.path().string(), name);
    require_same(file, *file.find(name), *weight);
  }
}

}  // namespace clora
