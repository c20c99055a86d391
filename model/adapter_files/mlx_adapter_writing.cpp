#include <algorithm>
#include <map>
#include <set>

#include "clora/lora/safetensors.hpp"
#include "clora/model/transformer/adapter_sites.hpp"
#include "clora/runtime/files/file.hpp"
#include "clora/runtime/files/json.hpp"
#include "lora/end_modules.hpp"
#include "lora/peft_config.hpp"
#include "model/adapter_files/mlx_adapter.hpp"
#include "model/adapter_files/mlx_names.hpp"
#include "model/adapter_files/scale_folding.hpp"
#include "runtime/fail.hpp"
#include "runtime/make_folder.hpp"
#include "runtime/parse_integer.hpp"

namespace clora {
namespace {

using Json = nlohmann::ordered_json;

// A module within a block: 3 and "self_attn.q_proj".
struct BlockPlace {
  std::int64_t block = 0;
  std::string_view rest;
};

std::optional<BlockPlace> place_in_block(std::string_view path, const ModelConfig& config) {
  if (!path.starts_with(config.block_prefix)) return std::nullopt;
  path.remove_prefix(config.block_prefix.size());
  const std::size_t dot = path.find('.');
  const auto block = parse_integer(path.substr(0, dot));
  if (dot == std::string_view::npos || !block) return std::nullopt;
  return BlockPlace{*block, path.substr(dot + 1)};
}

struct MlxSelection {
  std::int64_t last_blocks = 0;
  std::vector<std::string> keys;
};

// What mlx-lm adapts with these keys in the last blocks of a model, in sorted order.
std::vector<std::string_view> selected_by(const MlxSelection& selection, const ModelConfig& config,
                                          const std::vector<AdapterSite>& sites) {
  const std::set<std::string_view> keys(selection.keys.begin(), selection.keys.end());
  std::vector<std::string_view> paths;
  for (const AdapterSite& site : sites) {
    const auto place = place_in_block(site.path, config);
    const bool is_late = place && place->block >= config.layers - selection.last_blocks;
    if (keys.contains(site.path) || (is_late && keys.contains(place->rest))) {
      paths.push_back(site.path);
    }
  }
  std::ranges::sort(paths);
  return paths;
}

// By names within the last blocks if that selects exactly these modules, else by full paths.
MlxSelection selection_of(const std::vector<const ModuleValues*>& modules,
                          const ModelConfig& config) {
  std::int64_t first = config.layers;
  std::set<std::string> names;
  std::vector<std::string> paths;
  for (const ModuleValues* module : modules) {
    const std::string& path = module->site.path;
    paths.push_back(path);
    const auto place = place_in_block(path, config);
    names.insert(place ? std::string(place->rest) : path);
    if (place) first = std::min(first, place->block);
  }
  std::ranges::sort(paths);
  MlxSelection selection{config.layers - first, {names.begin(), names.end()}};
  const std::vector<AdapterSite> sites = all_adapter_sites(config);
  if (!std::ranges::equal(selected_by(selection, config, sites), paths)) selection.keys = paths;
  return selection;
}

// mlx-lm's keys of full paths have the prefix of its names.
Json keys_json(const MlxSelection& selection, const ModelConfig& config, std::string_view prefix) {
  Json keys = Json::array();
  for (const std::string& key : selection.keys) {
    const bool is_path = place_in_block(key, config) || key == kEmbeddingsPath || key == kHeadPath;
    keys.push_back(is_path ? std::string(prefix) + key : key);
  }
  return keys;
}

const ModuleValues* find(const AdapterValues& adapter, std::string_view path) {
  const auto at = std::ranges::find_if(
      adapter.modules, [&](const ModuleValues& module) { return module.site.path == path; });
  return at == adapter.modules.end() ? nullptr : &*at;
}

bool is_tied(const ModelConfig& config) { return config.has_head && config.tied_head; }

// mlx-lm applies an adapter of a tied matrix to embeddings and head.
void require_equal_ends(const AdapterValues& adapter) {
  const ModuleValues* words = find(adapter, kEmbeddingsPath);
  const ModuleValues* head = find(adapter, kHeadPath);
  if (words == nullptr || head == nullptr) return;  // require_mlx_holds(): neither
  const auto& [path, tokens, width] = words->site;
  if (words->rank == head->rank && words->scale == head->scale &&
      transposed(words->b, width, words->rank) == head->a &&
      transposed(words->a, words->rank, tokens) == head->b)
    return;
  fail(ErrorCode::unsupported,
       "adapter: an MLX adapter cannot hold different matrices of {} and {} for a model with one "
       "matrix for both; keep PEFT's format",
       kEmbeddingsPath, kHeadPath);
}

// [K, rank] and [rank, N] with zeros beyond the module's rank.
std::vector<float> padded_a(const ModuleValues& module, std::int64_t rank) {
  std::vector<float> a = module.a;
  a.resize(static_cast<std::size_t>(rank * module.site.inputs));
  return transposed(a, rank, module.site.inputs);
}

std::vector<float> padded_b(const ModuleValues& module, std::int64_t rank, double scale,
                            ConversionNotes& notes) {
  std::vector<float> b = transposed(module.b, module.site.outputs, module.rank);
  fold_scale(b, double{module.scale} / scale, module.site.path, notes);
  if (module.rank != rank) ++notes.padded;
  b.resize(static_cast<std::size_t>(rank * module.site.outputs));
  return b;
}

std::vector<std::byte> bytes_of(const std::vector<float>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {bytes.begin(), bytes.end()};
}

std::vector<const ModuleValues*> written_modules(const AdapterValues& adapter,
                                                 const ModelConfig& config) {
  std::vector<const ModuleValues*> modules;
  for (const ModuleValues& module : adapter.modules) {
    if (is_tied(config) && module.site.path == kHeadPath) continue;
    modules.push_back(&module);
  }
  return modules;
}

// The tensors of a module that follow one another in a file.
constexpr std::size_t kOfLora = 2, kOfDora = 3;

std::vector<StoredTensor> descriptions_of(const std::vector<const ModuleValues*>& modules,
                                          std::int64_t rank, bool use_dora,
                                          std::string_view prefix) {
  std::vector<StoredTensor> tensors;
  for (const ModuleValues* module : modules) {
    const auto& [path, inputs, outputs] = module->site;
    const std::string name = std::string(prefix) + path;
    tensors.push_back({name + ".lora_a", DType::f32, {inputs, rank}, {}});
    tensors.push_back({name + ".lora_b", DType::f32, {rank, outputs}, {}});
    if (use_dora) tensors.push_back({name + ".m", DType::f32, {outputs}, {}});
  }
  return tensors;
}

[[noreturn]] void refuse(std::string_view what, std::string_view why) {
  fail(ErrorCode::unsupported, "adapter: an MLX adapter cannot hold {}: {}; keep PEFT's format",
       what, why);
}

}  // namespace

void require_mlx_holds(const std::vector<AdapterModule>& modules,
                       const std::vector<SavedTensor>& saved, const ModelConfig& config) {
  (void)mlx_prefix(config);
  if (!saved.empty()) {
    refuse(
        fmt::format("{}, which is trained in full (modules_to_save or bias)", saved.front().name),
        "mlx-lm loads only low-rank matrices");
  }
  std::int64_t ends = 0;
  for (const AdapterModule& module : modules) {
    const std::string& path = module.site.path;
    if (is_expert(path)) refuse(path, "mlx-lm has one layer for all experts");
    if (path == kEmbeddingsPath || path == kHeadPath) ++ends;
  }
  if (is_tied(config) && ends == 1) {
    refuse(fmt::format("one of {} and {}", kEmbeddingsPath, kHeadPath),
           "the model has one matrix for both, and mlx-lm one adapter for it");
  }
}

ConversionNotes write_mlx_adapter(const AdapterValues& adapter, const ModelConfig& config,
                                  const std::filesystem::path& folder) {
  std::vector<SavedTensor> saved;
  for (const SavedValues& each : adapter.saved) saved.push_back(each.tensor);
  require_mlx_holds(modules_of(adapter), saved, config);
  if (is_tied(config)) require_equal_ends(adapter);
  const std::vector<const ModuleValues*> modules = written_modules(adapter, config);
  std::vector<double> scales;
  std::int64_t rank = 0;
  for (const ModuleValues* module : modules) {
    scales.push_back(double{module->scale});
    rank = std::max(rank, module->rank);
  }
  const double common = most_frequent_nonzero(scales);
  const double scale = common == 0 ? 1 : common;
  const std::string_view prefix = mlx_prefix(config);
  const bool use_dora = adapter.config.use_dora;
  const MlxSelection selection = selection_of(modules, config);
  const Json json{{"fine_tune_type", use_dora ? "dora" : "lora"},
                  {"model", adapter.config.base_model},
                  {"num_layers", selection.last_blocks},
                  {"lora_parameters",
                   {{"rank", rank},
                    {"scale", scale},
                    {"dropout", adapter.config.dropout},
                    {"keys", keys_json(selection, config, prefix)}}}};
  make_folder(folder, "adapter");
  ConversionNotes notes;
  const std::size_t of_module = use_dora ? kOfDora : kOfLora;
  write_safetensors(folder / kMlxTensorFile, descriptions_of(modules, rank, use_dora, prefix),
                    {{"format", "mlx"}}, [&](std::size_t i) {
                      const ModuleValues& module = *modules[i / of_module];
                      if (i % of_module == 0) return bytes_of(padded_a(module, rank));
                      if (i % of_module == 2) return bytes_of(module.magnitude);
                      return bytes_of(padded_b(module, rank, scale, notes));
                    });
  const std::string text = json_text(json, 4) + "\n";
  write_file_atomically(folder / kPeftConfigFile, std::as_bytes(std::span(text)));
  return notes;
}

}  // namespace clora
