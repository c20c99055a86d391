#include "clora/model/adapter_files/adapter_files.hpp"

#include <algorithm>
#include <array>
#include <fstream>
#include <optional>
#include <utility>

#include "clora/lora/peft_files.hpp"
#include "clora/model/transformer/adapter_sites.hpp"
#include "clora/model/transformer/saved_tensors.hpp"
#include "clora/runtime/files/file.hpp"
#include "clora/runtime/files/json.hpp"
#include "lora/end_modules.hpp"
#include "lora/hub_cache.hpp"
#include "lora/peft_config.hpp"
#include "lora/peft_tensors.hpp"
#include "model/adapter_files/gguf_adapter.hpp"
#include "model/adapter_files/mlx_adapter.hpp"
#include "model/files/model_folder.hpp"
#include "runtime/fail.hpp"

namespace clora {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::pair<AdapterFormat, std::string_view>, 3> kNames{
    {{AdapterFormat::peft, "peft"}, {AdapterFormat::mlx, "mlx"}, {AdapterFormat::gguf, "gguf"}}};
constexpr JsonLimits kLimits{.bytes = std::size_t{1} << 20U, .depth = 16};

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

bool is_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

bool is_gguf_file(const fs::path& path) {
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored)) return false;
  std::array<char, 4> magic{};
  std::ifstream(path, std::ios::binary).read(magic.data(), magic.size());
  return std::string_view(magic.data(), magic.size()) == "GGUF" || path.extension() == ".gguf";
}

// What a configuration says. A damaged one is left to the reader of PEFT's, which says why.
std::optional<AdapterFormat> format_in(const fs::path& config) {
  if (!is_there(config)) return std::nullopt;
  try {
    const auto json = parse_json(MappedFile::open(config).text(), config.string(), kLimits);
    if (!json.is_object() || json.contains("peft_type")) return AdapterFormat::peft;
    if (json.contains("lora_parameters") || json.contains("fine_tune_type"))
      return AdapterFormat::mlx;
  } catch (const Error&) {
    return AdapterFormat::peft;
  }
  return std::nullopt;
}

// A file within the folder of an adapter.
void refuse_file(const fs::path& path) {
  if (is_folder(path) || !is_there(path) || is_gguf_file(path)) return;
  fail(ErrorCode::invalid_argument,
       "adapter '{}': it is neither a folder nor a GGUF file; pass the folder with {}",
       path.string(), kPeftConfigFile);
}

fs::path gguf_file_of(const fs::path& path) {
  return is_folder(path) ? gguf_model_in(path).value_or(path) : path;
}

// Of an adapter that is trained, those of embeddings and head become different ones.
void refuse_tied_ends(const Adapter& adapter, const ModelConfig& config) {
  if (!config.tied_head || adapter.find(kEmbeddingsPath) == nullptr) return;
  fail(ErrorCode::unsupported,
       "adapter: an MLX adapter cannot hold {} and {} of a model with one matrix for both",
       kEmbeddingsPath, kHeadPath);
}

}  // namespace

std::string_view name_of(AdapterFormat format) {
  return std::ranges::find(kNames, format, &std::pair<AdapterFormat, std::string_view>::first)
      ->second;
}

AdapterFormat named_adapter_format(std::string_view name) {
  const auto at =
      std::ranges::find(kNames, name, &std::pair<AdapterFormat, std::string_view>::second);
  require(at != kNames.end(), "adapter: the format must be peft, mlx or gguf, got '{}'", name);
  return at->first;
}

AdapterFormat format_of_adapter(const fs::path& given) {
  const fs::path path = resolve_hub_path(given);
  if (is_gguf_file(path)) return AdapterFormat::gguf;
  if (!is_folder(path)) return AdapterFormat::peft;
  if (const auto format = format_in(path / kPeftConfigFile)) return *format;
  if (is_there(path / kPeftTensorFile)) return AdapterFormat::peft;
  if (is_there(path / kMlxTensorFile)) return AdapterFormat::mlx;
  const bool has_config = is_there(path / kPeftConfigFile);
  return !has_config && gguf_model_in(path) ? AdapterFormat::gguf : AdapterFormat::peft;
}

AdapterValues read_adapter(const fs::path& given, const ModelConfig& config) {
  const fs::path path = resolve_hub_path(given);
  refuse_file(path);
  switch (format_of_adapter(path)) {
    case AdapterFormat::mlx:
      return read_mlx_adapter(path, config);
    case AdapterFormat::gguf:
      return read_gguf_adapter(gguf_file_of(path), config);
    case AdapterFormat::peft:
      break;
  }
  return read_peft_adapter(path, all_adapter_sites(config), savable_tensors(config));
}

Adapter load_adapter(Context& context, const fs::path& path, const ModelConfig& config) {
  return to_device(context, read_adapter(path, config));
}

ConversionNotes write_adapter(const AdapterValues& adapter, AdapterFormat format,
                              const ModelConfig& config, const fs::path& path) {
  switch (format) {
    case AdapterFormat::mlx:
      return write_mlx_adapter(adapter, config, path);
    case AdapterFormat::gguf:
      return write_gguf_adapter(adapter, config, path);
    case AdapterFormat::peft:
      break;
  }
  write_peft_adapter(adapter, path);
  return {};
}

void require_format_holds(const Adapter& adapter, AdapterFormat format, const ModelConfig& config) {
  if (format == AdapterFormat::mlx) {
    require_mlx_holds(adapter.modules(), adapter.saved_tensors(), config);
    refuse_tied_ends(adapter, config);
  }
  if (format == AdapterFormat::gguf) {
    require_gguf_holds(adapter.config(), adapter.modules(), adapter.saved_tensors(), config);
  }
}

}  // namespace clora
