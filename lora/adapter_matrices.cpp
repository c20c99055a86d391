#include "clora/lora/adapter_matrices.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <set>

#include "clora/runtime/files/file.hpp"
#include "lora/matrices_reading.hpp"
#include "lora/module_selection.hpp"
#include "lora/peft_config.hpp"
#include "lora/peft_tensors.hpp"
#include "runtime/fail.hpp"
#include "runtime/make_folder.hpp"
#include "runtime/memory/half.hpp"

namespace clora {
namespace {

StoredTensor matrix_named(const SafetensorsFile& file, const std::string& name) {
  const std::optional<StoredTensor> tensor = file.find(name);
  if (!tensor) {
    fail(ErrorCode::invalid_file, "adapter '{}': tensor '{}' is missing", file.path().string(),
         name);
  }
  if (tensor->shape.rank() != 2) {
    fail(ErrorCode::invalid_file, "adapter '{}': tensor '{}' must be a matrix, got {}",
         file.path().string(), name, tensor->shape.text());
  }
  return *tensor;
}

std::vector<double> doubles_of(const SafetensorsFile& file, const StoredTensor& tensor) {
  const std::vector<float> values = peft_values(file, tensor);
  return {values.begin(), values.end()};
}

ModuleMatrices read_module(const SafetensorsFile& file, const std::string& path,
                           const AdapterConfig& config, ModuleSelection& selection) {
  const StoredTensor a = matrix_named(file, name_of_a(path));
  const StoredTensor b = matrix_named(file, name_of_b(path));
  const std::int64_t rank = selection.rank(path);
  if (a.shape[0] != rank || b.shape[1] != rank) {
    fail(ErrorCode::invalid_file,
         "adapter '{}': the matrices of {} must have the rank {} of {}, got A {} and B {}",
         file.path().string(), path, rank, kPeftConfigFile, a.shape.text(), b.shape.text());
  }
  return {.site = {path, a.shape[1], b.shape[0]},
          .rank = rank,
          .scale = adapter_scale(config, selection.alpha(path), rank),
          .a = doubles_of(file, a),
          .b = doubles_of(file, b)};
}

std::set<std::string> adapted_paths(const SafetensorsFile& file, const std::string& config,
                                    ModuleSelection& selection) {
  std::set<std::string> paths;
  for (const std::string& name : file.names()) {
    if (path_of_stored_end(name)) continue;
    std::optional<std::string> path = path_in_name(name);
    if (!path) {
      fail(ErrorCode::unsupported,
           "adapter '{}': tensor '{}' is not supported; only matrices of LoRA are ('{}')",
           file.path().string(), name, name_of_a("PATH"));
    }
    if (!selection.selects(*path)) {
      fail(ErrorCode::invalid_file,
           "{}: target_modules does not select {}, but {} has matrices for it", config, *path,
           kPeftTensorFile);
    }
    paths.insert(*std::move(path));
  }
  if (paths.empty()) {
    fail(ErrorCode::invalid_file, "adapter '{}': it has no tensors", file.path().string());
  }
  return paths;
}

float rounded(float value, DType type) {
  if (type == DType::bf16) return bf16_to_float(float_to_bf16(value));
  if (type == DType::f16) return f16_to_float(float_to_f16(value));
  return value;
}

void require_peft_type(DType type) {
  require(type == DType::f32 || type == DType::f16 || type == DType::bf16,
          "adapter: PEFT reads f32, f16 and bf16, not {}", name_of(type));
}

void round_values(std::vector<double>& values, DType type, const std::string& name) {
  for (double& value : values) {
    const float stored = rounded(static_cast<float>(value), type);
    if (!std::isfinite(stored)) {
      fail(ErrorCode::invalid_data,
           "adapter: tensor '{}' contains {:.3g}, which is not finite in {}; choose another type",
           name, value, name_of(type));
    }
    value = double{stored};
  }
}

// The bytes of values that are already rounded to the type.
std::vector<std::byte> bytes_in(const std::vector<double>& values, DType type) {
  const std::size_t size = type == DType::f32 ? sizeof(float) : sizeof(std::uint16_t);
  std::vector<std::byte> bytes(values.size() * size);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto value = static_cast<float>(values[i]);
    const std::uint16_t half = type == DType::bf16 ? float_to_bf16(value) : float_to_f16(value);
    const void* const from = type == DType::f32 ? static_cast<const void*>(&value) : &half;
    std::memcpy(bytes.data() + i * size, from, size);
  }
  return bytes;
}

std::vector<AdapterModule> described(const AdapterMatrices& adapter) {
  std::vector<AdapterModule> modules;
  for (const ModuleMatrices& module : adapter.modules) {
    AdapterModule& added = modules.emplace_back();
    added.site = module.site;
    added.rank = module.rank;
    added.scale = static_cast<float>(module.scale);
  }
  return modules;
}

// Two tensors a module, A first.
std::vector<StoredTensor> descriptions_of(const AdapterMatrices& adapter, DType type) {
  std::vector<StoredTensor> tensors;
  for (const ModuleMatrices& module : adapter.modules) {
    const auto& [path, inputs, outputs] = module.site;
    tensors.push_back({name_of_a(path), type, {module.rank, inputs}, {}});
    tensors.push_back({name_of_b(path), type, {outputs, module.rank}, {}});
  }
  return tensors;
}

// Ranks and alphas that differ from the most frequent rank are written as patterns.
void describe_ranks(AdapterConfig& config, const std::vector<ModuleMatrices>& modules) {
  std::map<std::int64_t, std::size_t> count;
  for (const ModuleMatrices& module : modules) ++count[module.rank];
  config.rank =
      std::ranges::max_element(count, {}, &std::pair<const std::int64_t, std::size_t>::second)
          ->first;
  config.alpha = static_cast<double>(config.rank);
  config.rank_stabilised = false;
  config.rank_pattern.clear();
  config.alpha_pattern.clear();
  for (const ModuleMatrices& module : modules) {
    if (module.rank == config.rank) continue;
    config.rank_pattern.emplace_back(module.site.path, module.rank);
    config.alpha_pattern.emplace_back(module.site.path, static_cast<double>(module.rank));
  }
}

std::vector<std::string> paths_of(const std::vector<ModuleMatrices>& modules) {
  std::vector<std::string> paths;
  for (const ModuleMatrices& module : modules) paths.push_back(module.site.path);
  std::ranges::sort(paths);
  return paths;
}

bool is_plain_list(const AdapterConfig& config) {
  return !config.targets_are_regex && config.exclude_modules.empty() &&
         config.layers_to_transform.empty() && !config.target_modules.empty();
}

void copy_selection(AdapterConfig& to, const AdapterConfig& from) {
  to.target_modules = from.target_modules;
  to.targets_are_regex = from.targets_are_regex;
  to.exclude_modules = from.exclude_modules;
  to.excludes_are_regex = from.excludes_are_regex;
  to.layers_to_transform = from.layers_to_transform;
  to.layers_pattern = from.layers_pattern;
}

// Clears `config` of its selection, and selects all modules of the origins by their names. Returns
// whether this selects no others.
bool select_by_names(AdapterConfig& config, std::span<const AdapterMatrices* const> origins) {
  copy_selection(config, {});
  for (const AdapterMatrices* origin : origins) {
    for (const std::string& name : origin->config.target_modules) {
      if (std::ranges::find(config.target_modules, name) == config.target_modules.end())
        config.target_modules.push_back(name);
    }
  }
  return std::ranges::all_of(
      origins, [](const AdapterMatrices* origin) { return is_plain_list(origin->config); });
}

void select_modules(AdapterConfig& config, const std::vector<ModuleMatrices>& modules,
                    std::span<const AdapterMatrices* const> origins) {
  const std::vector<std::string> paths = paths_of(modules);
  std::set<std::string> all;
  for (const AdapterMatrices* origin : origins) {
    const std::vector<std::string> own = paths_of(origin->modules);
    if (own == paths) return copy_selection(config, origin->config);
    all.insert(own.begin(), own.end());
  }
  const bool is_united = std::ranges::equal(all, paths);
  if (is_united && select_by_names(config, origins)) return;
  copy_selection(config, {});
  config.target_modules = paths;
}

}  // namespace

const ModuleMatrices* AdapterMatrices::find(std::string_view path) const {
  const auto path_of = [](const ModuleMatrices& module) -> std::string_view {
    return module.site.path;
  };
  const auto at = std::ranges::lower_bound(modules, path, {}, path_of);
  return at == modules.end() || at->site.path != path ? nullptr : &*at;
}

AdapterMatrices read_adapter_matrices(const std::filesystem::path& folder) {
  return read_adapter_matrices(folder, BaseWeights::original);
}

AdapterMatrices read_adapter_matrices(const std::filesystem::path& folder, BaseWeights base) {
  require_peft_folder(folder);
  AdapterMatrices adapter{.config = read_peft_config(folder, base), .modules = {}};
  const SafetensorsFile file = SafetensorsFile::open(folder / kPeftTensorFile);
  const std::string source = (folder / kPeftConfigFile).string();
  if (adapter.config.use_dora) {
    fail(ErrorCode::unsupported,
         "{}: an adapter of DoRA is no sum of products and cannot be combined; merge it into its "
         "base model and extract an adapter of plain LoRA from the two",
         source);
  }
  ModuleSelection selection(adapter.config, source);
  for (const std::string& path : adapted_paths(file, source, selection)) {
    adapter.modules.push_back(read_module(file, path, adapter.config, selection));
  }
  return adapter;
}

void round_to(ModuleMatrices& module, DType type) {
  require_peft_type(type);
  round_values(module.a, type, name_of_a(module.site.path));
  round_values(module.b, type, name_of_b(module.site.path));
}

void round_to(AdapterMatrices& adapter, DType type) {
  for (ModuleMatrices& module : adapter.modules) round_to(module, type);
}

void write_adapter_matrices(const AdapterMatrices& adapter, const std::filesystem::path& folder,
                            DType type) {
  AdapterMatrices stored = adapter;
  round_to(stored, type);
  const std::string config = peft_config_text(config_to_save(adapter.config, described(adapter)));
  make_folder(folder, "adapter");
  write_safetensors(folder / kPeftTensorFile, descriptions_of(adapter, type), {{"format", "pt"}},
                    [&](std::size_t i) {
                      const ModuleMatrices& module = stored.modules[i / 2];
                      return bytes_in(i % 2 == 0 ? module.a : module.b, type);
                    });
  write_file_atomically(folder / kPeftConfigFile, std::as_bytes(std::span(config)));
}

AdapterMatrices make_adapter_matrices(std::vector<ModuleMatrices> modules,
                                      const AdapterConfig& config) {
  require(!modules.empty(), "adapter: it would have no modules");
  AdapterMatrices adapter{.config = config, .modules = std::move(modules)};
  std::ranges::sort(adapter.modules, {}, [](const ModuleMatrices& module) -> std::string_view {
    return module.site.path;
  });
  describe_ranks(adapter.config, adapter.modules);
  return adapter;
}

AdapterMatrices make_adapter_matrices(std::vector<ModuleMatrices> modules,
                                      std::span<const AdapterMatrices* const> origins) {
  require(!origins.empty(), "adapter: it must come from at least one adapter");
  AdapterConfig config = origins.front()->config;
  for (const AdapterMatrices* origin : origins) {
    require(origin->config.task_type == config.task_type,
            "adapter: the adapters must be for one task_type, got {} and {}", config.task_type,
            origin->config.task_type);
  }
  select_modules(config, modules, origins);
  return make_adapter_matrices(std::move(modules), config);
}

}  // namespace clora
