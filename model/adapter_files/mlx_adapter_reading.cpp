#include <algorithm>
#include <map>
#include <set>

#include "clora/lora/safetensors.hpp"
#include "clora/model/transformer/adapter_sites.hpp"
#include "clora/runtime/files/file.hpp"
#include "clora/runtime/files/json.hpp"
#include "lora/end_modules.hpp"
#include "lora/peft_config.hpp"
#include "lora/peft_tensors.hpp"
#include "model/adapter_files/found_modules.hpp"
#include "model/adapter_files/mlx_adapter.hpp"
#include "model/adapter_files/mlx_names.hpp"
#include "runtime/fail.hpp"

namespace clora {
namespace {

constexpr std::string_view kSuffixA = ".lora_a", kSuffixB = ".lora_b", kSuffixM = ".m";
// mlx-lm writes every option of a training run into the file.
constexpr JsonLimits kLimits{.bytes = std::size_t{1} << 20U, .depth = 16};

struct MlxConfig {
  bool use_dora = false;
  std::int64_t rank = 0;
  double scale = 0, dropout = 0;
};

bool read_uses_dora(const JsonKeys& keys) {
  const auto type = keys.find_text("fine_tune_type");
  // Before mlx-lm 0.20 there was a flag.
  if (!type) return keys.find_flag("use_dora").value_or(false);
  if (*type == "lora" || *type == "dora") return *type == "dora";
  fail(ErrorCode::unsupported,
       "{}: fine_tune_type = \"{}\" is not supported{}; only lora and dora are", keys.source(),
       *type, *type == "full" ? " (a model that was trained in full is no adapter)" : "");
}

MlxConfig read_config(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / kPeftConfigFile;
  const nlohmann::json json = parse_json(MappedFile::open(path).text(), path.string(), kLimits);
  const JsonKeys keys(json, path.string());
  const JsonKeys parameters = keys.object("lora_parameters");
  MlxConfig config{.use_dora = read_uses_dora(keys),
                   .rank = parameters.integer("rank"),
                   .scale = parameters.number("scale"),
                   .dropout = parameters.find_number("dropout").value_or(0)};
  if (config.rank < 1 || config.rank > Adapter::kMaxRank) {
    fail(ErrorCode::invalid_file, "{}: {} must be from 1 to {}, got {}", path.string(),
         parameters.name_of_key("rank"), Adapter::kMaxRank, config.rank);
  }
  if (!(config.dropout >= 0 && config.dropout < 1)) {
    fail(ErrorCode::invalid_file, "{}: {} must be at least 0 and below 1, got {}", path.string(),
         parameters.name_of_key("dropout"), config.dropout);
  }
  return config;
}

std::optional<std::string_view> module_in(std::string_view name, bool use_dora) {
  for (const std::string_view suffix : {kSuffixA, kSuffixB, kSuffixM}) {
    if (suffix == kSuffixM && !use_dora) continue;
    if (name.ends_with(suffix)) return name.substr(0, name.size() - suffix.size());
  }
  return std::nullopt;
}

// The paths of the modules that have a tensor, without mlx-lm's prefix.
std::set<std::string> paths_in(const SafetensorsFile& file, const MlxConfig& mlx,
                               const ModelConfig& config) {
  const std::string_view prefix = mlx_prefix(config);
  std::set<std::string> known, paths;
  for (const AdapterSite& site : all_adapter_sites(config)) known.insert(site.path);
  for (const std::string& name : file.names()) {
    const auto module = module_in(name, mlx.use_dora);
    if (!module) {
      fail(ErrorCode::unsupported,
           "adapter '{}': tensor '{}' is not supported; only PATH{}, PATH{} and, of DoRA, PATH{} "
           "are",
           file.path().string(), name, kSuffixA, kSuffixB, kSuffixM);
    }
    if (module->find(".switch_mlp.") != std::string_view::npos) {
      fail(ErrorCode::unsupported,
           "adapter '{}': tensor '{}' is of all experts of a layer, which is not supported",
           file.path().string(), name);
    }
    std::string path(module->starts_with(prefix) ? module->substr(prefix.size()) : *module);
    require(known.contains(path),
            "adapter '{}': tensor '{}' matches no layer of this base model that can be adapted; is "
            "it an adapter for another model?",
            file.path().string(), name);
    paths.insert(std::move(path));
  }
  return paths;
}

std::vector<float> values_of(const SafetensorsFile& file, const std::string& name,
                             const Shape& wanted) {
  const std::optional<StoredTensor> tensor = file.find(name);
  if (!tensor) {
    fail(ErrorCode::invalid_file, "adapter '{}': tensor '{}' is missing", file.path().string(),
         name);
  }
  if (tensor->shape != wanted) {
    fail(ErrorCode::invalid_file,
         "adapter '{}': tensor '{}' must be {} to fit the base model and the rank in {}, got {}",
         file.path().string(), name, wanted.text(), kPeftConfigFile, tensor->shape.text());
  }
  return peft_values(file, *tensor);
}

ModuleValues read_module(const SafetensorsFile& file, const MlxConfig& mlx, const AdapterSite& site,
                         std::string_view prefix) {
  const auto& [path, inputs, outputs] = site;
  const std::int64_t rank = mlx.rank;
  const auto read = [&](std::string_view suffix, const Shape& shape) {
    return values_of(file, fmt::format("{}{}{}", prefix, path, suffix), shape);
  };
  return {.site = site,
          .rank = rank,
          .scale = static_cast<float>(mlx.scale),
          .a = transposed(read(kSuffixA, {inputs, rank}), inputs, rank),
          .b = transposed(read(kSuffixB, {rank, outputs}), rank, outputs),
          .magnitude = mlx.use_dora ? read(kSuffixM, {outputs}) : std::vector<float>()};
}

// The adapter of a matrix that is embeddings and head, at the head: y += scale (x b) a^T.
ModuleValues head_of_embeddings(const ModuleValues& words, const AdapterSite& head) {
  const auto& [path, tokens, width] = words.site;
  return {.site = head,
          .rank = words.rank,
          .scale = words.scale,
          .a = transposed(words.b, width, words.rank),
          .b = transposed(words.a, words.rank, tokens),
          .magnitude = {}};
}

}  // namespace

AdapterValues read_mlx_adapter(const std::filesystem::path& folder, const ModelConfig& config) {
  const MlxConfig mlx = read_config(folder);
  const SafetensorsFile file = SafetensorsFile::open(folder / kMlxTensorFile);
  const std::set<std::string> paths = paths_in(file, mlx, config);
  const bool is_tied = config.has_head && config.tied_head;
  std::vector<ModuleValues> modules;
  std::optional<ModuleValues> words;
  for (const AdapterSite& site : all_adapter_sites(config)) {
    if (is_tied && words && site.path == kHeadPath) {
      modules.push_back(head_of_embeddings(*words, site));
      continue;
    }
    if (!paths.contains(site.path)) continue;
    if (mlx.use_dora && is_embedding(site.path)) {
      fail(ErrorCode::unsupported, "adapter '{}': DoRA is not supported for token embeddings ({})",
           folder.string(), site.path);
    }
    modules.push_back(read_module(file, mlx, site, mlx_prefix(config)));
    if (is_embedding(site.path)) words = modules.back();
  }
  AdapterValues values = adapter_of_found(std::move(modules), config,
                                          {.source = folder.string(),
                                           .alpha = mlx.scale * static_cast<double>(mlx.rank),
                                           .dropout = mlx.dropout,
                                           .use_dora = mlx.use_dora});
  return values;
}

}  // namespace clora
