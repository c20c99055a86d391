#include "lora/peft_tensors.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "lora/end_modules.hpp"
#include "lora/finite_values.hpp"
#include "lora/hub_hint.hpp"
#include "lora/peft_config.hpp"
#include "runtime/fail.hpp"
#include "runtime/memory/half.hpp"

namespace clora {
namespace {

// Of linear layers, and of token embeddings, whose matrices are parameters without a module.
struct Suffixes {
  std::string_view a, b;
};
constexpr Suffixes kOfLinears{".lora_A.weight", ".lora_B.weight"};
constexpr const char* kMlxTensors = "adapters.safetensors";  // of an adapter of mlx-lm
constexpr Suffixes kOfEmbeddings{".lora_embedding_A", ".lora_embedding_B"};

const Suffixes& suffixes_of(std::string_view path) {
  return is_embedding(path) ? kOfEmbeddings : kOfLinears;
}

template <class Stored, class Convert>
std::vector<float> converted(const StoredTensor& tensor, Convert convert) {
  std::vector<float> values(static_cast<std::size_t>(tensor.shape.elements()));
  for (std::size_t i = 0; i < values.size(); ++i) {
    Stored stored{};
    std::memcpy(&stored, tensor.bytes.data() + i * sizeof stored, sizeof stored);
    values[i] = convert(stored);
  }
  return values;
}

std::vector<float> floats_of(const StoredTensor& tensor, const std::filesystem::path& path) {
  if (tensor.type == DType::f32) return converted<float>(tensor, [](float x) { return x; });
  if (tensor.type == DType::bf16) return converted<std::uint16_t>(tensor, bf16_to_float);
  if (tensor.type == DType::f16) return converted<std::uint16_t>(tensor, f16_to_float);
  fail(ErrorCode::unsupported, "adapter '{}': tensor '{}' is {}; it must be f32, f16 or bf16",
       path.string(), tensor.name, name_of(tensor.type));
}

}  // namespace

std::string name_of_a(std::string_view path) {
  return fmt::format("{}{}{}", kPeftPrefix, path, suffixes_of(path).a);
}
std::string name_of_b(std::string_view path) {
  return fmt::format("{}{}{}", kPeftPrefix, path, suffixes_of(path).b);
}

std::optional<std::string> path_in_name(std::string_view name) {
  if (!name.starts_with(kPeftPrefix)) return std::nullopt;
  name.remove_prefix(kPeftPrefix.size());
  for (const Suffixes& suffixes : {kOfLinears, kOfEmbeddings}) {
    for (const std::string_view suffix : {suffixes.a, suffixes.b}) {
      if (!name.ends_with(suffix)) continue;
      const std::string_view path = name.substr(0, name.size() - suffix.size());
      if (suffixes_of(path).a == suffixes.a) return std::string(path);
    }
  }
  return std::nullopt;
}

std::string name_of_saved(const SavedTensor& tensor, bool is_adapted) {
  if (!is_adapted || !tensor.is_bias()) return fmt::format("{}{}", kPeftPrefix, tensor.name);
  return fmt::format("{}{}.base_layer.bias", kPeftPrefix, tensor.module());
}

bool is_name_of_saved(std::string_view name, const SavedTensor& tensor) {
  if (name == name_of_saved(tensor, false)) return true;
  if (!tensor.is_bias()) return false;
  constexpr std::array<std::string_view, 3> kOwners{"base_layer", "modules_to_save",
                                                    "original_module"};
  return std::ranges::any_of(kOwners, [&](std::string_view owner) {
    return name == fmt::format("{}{}.{}.bias", kPeftPrefix, tensor.module(), owner);
  });
}

std::optional<std::string> path_of_stored_end(std::string_view name) {
  for (const std::string_view path : {kEmbeddingsPath, kHeadPath}) {
    if (name == fmt::format("{}{}.base_layer.weight", kPeftPrefix, path)) return std::string(path);
  }
  return std::nullopt;
}

std::vector<float> peft_values(const SafetensorsFile& file, const StoredTensor& tensor) {
  std::vector<float> values = floats_of(tensor, file.path());
  const auto at = first_not_finite(values);
  if (!at) return values;
  fail(ErrorCode::invalid_file,
       "adapter '{}': tensor '{}' contains {} at element {}; is the file damaged?",
       file.path().string(), tensor.name, values[*at], *at);
}

void require_peft_folder(const std::filesystem::path& folder) {
  std::error_code ignored;
  if (folder.extension() == ".gguf" || std::filesystem::exists(folder / kMlxTensors, ignored)) {
    fail(ErrorCode::unsupported,
         "adapter '{}': it is not in PEFT's format, which is required here; convert it first "
         "(clora convert)",
         folder.string());
  }
  if (!std::filesystem::exists(folder / kPeftConfigFile, ignored)) {
    fail(ErrorCode::not_found, "adapter '{}': the folder has no {}{}", folder.string(),
         kPeftConfigFile, hub_hint(folder));
  }
  if (std::filesystem::exists(folder / kPeftTensorFile, ignored)) return;
  const bool is_pickled = std::filesystem::exists(folder / "adapter_model.bin", ignored);
  fail(ErrorCode::not_found, "adapter '{}': the folder has no {}{}", folder.string(),
       kPeftTensorFile,
       is_pickled ? "; adapter_model.bin is a Python pickle: save the adapter again with PEFT's "
                    "save_pretrained(..., safe_serialization=True)"
                  : "");
}

}  // namespace clora
