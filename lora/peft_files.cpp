#include "clora/lora/peft_files.hpp"

#include <algorithm>
#include <optional>
#include <set>

#include "clora/lora/safetensors.hpp"
#include "clora/runtime/files/file.hpp"
#include "lora/end_modules.hpp"
#include "lora/module_selection.hpp"
#include "lora/peft_config.hpp"
#include "lora/peft_tensors.hpp"
#include "lora/saved_tensors.hpp"
#include "runtime/fail.hpp"
#include "runtime/make_folder.hpp"

namespace clora {
namespace {

constexpr std::string_view kSuffixMagnitude = ".lora_magnitude_vector";

std::string name_magnitude(const std::string& path) {
  return fmt::format("{}{}{}", kPeftPrefix, path, kSuffixMagnitude);
}

const AdapterSite* site_of(const std::vector<AdapterSite>& sites, std::string_view path) {
  const auto found =
      std::ranges::find_if(sites, [&](const AdapterSite& site) { return site.path == path; });
  return found == sites.end() ? nullptr : &*found;
}

// The path in a tensor's name, or empty if it is not the name of a tensor of such an adapter. Files
// of PEFT have no adapter name between lora_A and weight.
std::optional<std::string> path_in(std::string_view name, bool use_dora) {
  std::optional<std::string> path = path_in_name(name);
  if (path || !use_dora || !name.starts_with(kPeftPrefix) || !name.ends_with(kSuffixMagnitude))
    return path;
  name.remove_prefix(kPeftPrefix.size());
  name.remove_suffix(kSuffixMagnitude.size());
  return std::string(name);
}

bool is_saved_tensor(const std::vector<SavedTensor>& saved, std::string_view name) {
  return std::ranges::any_of(
      saved, [&](const SavedTensor& tensor) { return is_name_of_saved(name, tensor); });
}

// Every path that the file has matrices for; throws if one of them is not a site.
std::set<std::string> paths_in(const SafetensorsFile& file, const std::vector<AdapterSite>& sites,
                               const std::vector<SavedTensor>& saved, bool use_dora) {
  std::set<std::string> paths;
  for (const std::string& name : file.names()) {
    if (path_of_stored_end(name) || is_saved_tensor(saved, name)) continue;
    const std::optional<std::string> path = path_in(name, use_dora);
    if (!path) {
      fail(ErrorCode::unsupported,
           "adapter '{}': tensor '{}' is not supported; only {} and {} are, {} if use_dora is "
           "true in {}, and tensors of modules that its modules_to_save selects and biases that "
           "its bias does",
           file.path().string(), name, name_of_a("PATH"), name_of_b("PATH"), name_magnitude("PATH"),
           kPeftConfigFile);
    }
    require(site_of(sites, *path) != nullptr,
            "adapter '{}': tensor '{}' matches no layer of this base model that can be adapted; is "
            "it an adapter for another model?",
            file.path().string(), name);
    paths.insert(*path);
  }
  return paths;
}

StoredTensor tensor_of(const SafetensorsFile& file, const std::string& name) {
  std::optional<StoredTensor> tensor = file.find(name);
  if (!tensor.has_value()) {
    fail(ErrorCode::invalid_file, "adapter '{}': tensor '{}' is missing", file.path().string(),
         name);
  }
  return *std::move(tensor);
}

// The tensor of a matrix; throws unless its shape is [rows, columns].
StoredTensor matrix_of(const SafetensorsFile& file, const std::string& name, std::int64_t rows,
                       std::int64_t columns) {
  const StoredTensor tensor = tensor_of(file, name);
  const Shape& shape = tensor.shape;
  require(shape.rank() == 2 && shape[0] == rows && shape[1] == columns,
          "adapter '{}': tensor '{}' must be [{}, {}] to fit the base model and the rank in {}, "
          "got {}",
          file.path().string(), name, rows, columns, kPeftConfigFile, shape.text());
  return tensor;
}

// A tensor that is trained in full; throws unless its shape is the base model's.
StoredTensor saved_tensor_in(const SafetensorsFile& file, const SavedTensor& saved) {
  const std::string of_adapted = name_of_saved(saved, true);
  const StoredTensor tensor =
      tensor_of(file, file.find(of_adapted) ? of_adapted : name_of_saved(saved, false));
  require(tensor.shape == saved.shape,
          "adapter '{}': tensor '{}' must be {} to fit the base model, got {}",
          file.path().string(), tensor.name, saved.shape.text(), tensor.shape.text());
  return tensor;
}

// The magnitudes of a module; throws unless their shape is [outputs].
StoredTensor magnitude_of(const SafetensorsFile& file, const AdapterModule& module) {
  const StoredTensor tensor = tensor_of(file, name_magnitude(module.site.path));
  require(tensor.shape.rank() == 1 && tensor.shape[0] == module.site.outputs,
          "adapter '{}': tensor '{}' must be [{}] to fit the base model, got {}",
          file.path().string(), tensor.name, module.site.outputs, tensor.shape.text());
  return tensor;
}

// Those that the configuration selects, of which the file must have all.
std::vector<SavedTensor> saved_tensors_of(const AdapterConfig& config, const std::string& source,
                                          const SafetensorsFile& file,
                                          const std::vector<AdapterSite>& sites,
                                          const std::vector<SavedTensor>& savable) {
  ModuleSelection selection(config, source);
  std::vector<AdapterSite> adapted;
  std::ranges::copy_if(sites, std::back_inserter(adapted),
                       [&](const AdapterSite& site) { return selection.selects(site.path); });
  std::vector<SavedTensor> saved = select_trained_tensors(savable, config, adapted, source);
  for (const SavedTensor& tensor : saved) {
    (void)saved_tensor_in(file, tensor);
    const bool is_end = tensor.module() == kEmbeddingsPath || tensor.module() == kHeadPath;
    if (is_end && ensures_weight_tying(file.path().parent_path())) {
      fail(ErrorCode::unsupported,
           "{}: ensure_weight_tying is not supported with {} in modules_to_save: embeddings and "
           "the head are trained as matrices of their own",
           source, tensor.module());
    }
  }
  return saved;
}

// Rejects modules that a PEFT configuration may name but that cannot be adapted here.
void refuse_other_ends(ModuleSelection& selection, const std::string& source,
                       const std::vector<AdapterSite>& sites) {
  for (const std::string_view path : {kHeadPath, kEmbeddingsPath}) {
    if (site_of(sites, path) != nullptr || !selection.selects(path)) continue;
    fail(ErrorCode::unsupported,
         "{}: target_modules selects {}, which cannot be adapted in this base model", source, path);
  }
}

// The head of a tied model has matrices that PEFT does not select with it (ensures_weight_tying()).
AdapterConfig with_tied_head(AdapterConfig config, const std::string& source) {
  ModuleSelection selection(config, source);
  if (selection.selects(kHeadPath) || !selection.selects(kEmbeddingsPath)) return config;
  if (config.targets_are_regex) {
    config.target_modules = {fmt::format("(?:{})|{}", config.target_modules.front(), kHeadPath)};
  } else {
    config.target_modules.emplace_back(kHeadPath);
  }
  return config;
}

// The modules that the configuration selects, in the order of the model. The file must have the
// matrices of exactly these: PEFT ignores superfluous ones and does not report missing ones.
std::vector<AdapterModule> modules_of(const AdapterConfig& config, const std::string& source,
                                      const std::set<std::string>& paths,
                                      const std::vector<AdapterSite>& sites) {
  ModuleSelection selection(config, source);
  refuse_other_ends(selection, source, sites);
  std::vector<AdapterModule> modules;
  for (const AdapterSite& site : sites) {
    const bool is_selected = selection.selects(site.path);
    const bool is_stored = paths.contains(site.path);
    if (is_selected && !is_stored) {
      fail(ErrorCode::invalid_file,
           "{}: target_modules selects {}, but {} has no matrices for it; narrow target_modules or "
           "layers_to_transform to the modules in that file",
           source, site.path, kPeftTensorFile);
    }
    if (is_stored && !is_selected) {
      fail(ErrorCode::invalid_file,
           "{}: target_modules does not select {}, but {} has matrices for it", source, site.path,
           kPeftTensorFile);
    }
    if (!is_selected) continue;
    const std::int64_t rank = selection.rank(site.path);
    const double scale = adapter_scale(config, selection.alpha(site.path), rank);
    modules.push_back({site, rank, static_cast<float>(scale), 0, 0});
  }
  if (modules.empty()) {
    fail(ErrorCode::invalid_file, "{}: target_modules selects no layer of this base model", source);
  }
  return modules;
}

// Checks all shapes before any device memory is allocated.
void check_shapes(const SafetensorsFile& file, const std::vector<AdapterModule>& modules,
                  bool use_dora) {
  for (const AdapterModule& module : modules) {
    if (use_dora && is_embedding(module.site.path)) {
      fail(ErrorCode::unsupported, "adapter '{}': DoRA is not supported for token embeddings ({})",
           file.path().string(), module.site.path);
    }
    (void)matrix_of(file, name_of_a(module.site.path), module.rank, module.site.inputs);
    (void)matrix_of(file, name_of_b(module.site.path), module.site.outputs, module.rank);
    if (use_dora) (void)magnitude_of(file, module);
  }
}

ModuleValues read_module(const SafetensorsFile& file, const AdapterModule& module, bool use_dora) {
  const auto& [path, inputs, outputs] = module.site;
  const std::int64_t rank = module.rank;
  return {
      .site = module.site,
      .rank = rank,
      .scale = module.scale,
      .a = peft_values(file, matrix_of(file, name_of_a(path), rank, inputs)),
      .b = peft_values(file, matrix_of(file, name_of_b(path), outputs, rank)),
      .magnitude = use_dora ? peft_values(file, magnitude_of(file, module)) : std::vector<float>()};
}

}  // namespace

void write_peft_adapter(const AdapterValues& adapter, const std::filesystem::path& folder) {
  const std::string config = peft_config_text(config_to_save(adapter.config, modules_of(adapter)));
  make_folder(folder, "adapter");
  std::vector<StoredTensor> tensors;
  const auto add = [&](std::string name, const Shape& shape, const std::vector<float>& values) {
    tensors.push_back({std::move(name), DType::f32, shape, std::as_bytes(std::span(values))});
  };
  for (const ModuleValues& module : adapter.modules) {
    const auto& [path, inputs, outputs] = module.site;
    add(name_of_a(path), {module.rank, inputs}, module.a);
    add(name_of_b(path), {outputs, module.rank}, module.b);
    if (adapter.config.use_dora) add(name_magnitude(path), {outputs}, module.magnitude);
  }
  for (const SavedValues& saved : adapter.saved) {
    const bool is_adapted = std::ranges::any_of(adapter.modules, [&](const ModuleValues& module) {
      return module.site.path == saved.tensor.module();
    });
    add(name_of_saved(saved.tensor, is_adapted), saved.tensor.shape, saved.values);
  }
  write_safetensors(folder / kPeftTensorFile, tensors, {{"format", "pt"}});
  write_file_atomically(folder / kPeftConfigFile, std::as_bytes(std::span(config)));
}

AdapterValues read_peft_adapter(const std::filesystem::path& folder,
                                const std::vector<AdapterSite>& sites,
                                const std::vector<SavedTensor>& savable) {
  require_peft_folder(folder);
  AdapterConfig config = read_peft_config(folder);
  const SafetensorsFile file = SafetensorsFile::open(folder / kPeftTensorFile);
  const std::string source = (folder / kPeftConfigFile).string();
  const std::vector<SavedTensor> saved = saved_tensors_of(config, source, file, sites, savable);
  const std::set<std::string> paths = paths_in(file, sites, saved, config.use_dora);
  if (paths.contains(std::string(kHeadPath)) && ensures_weight_tying(folder)) {
    config = with_tied_head(std::move(config), source);
  }
  const std::vector<AdapterModule> modules = modules_of(config, source, paths, sites);
  check_shapes(file, modules, config.use_dora);
  AdapterValues values{.config = std::move(config), .modules = {}, .saved = {}};
  for (const AdapterModule& module : modules) {
    values.modules.push_back(read_module(file, module, values.config.use_dora));
  }
  for (const SavedTensor& tensor : saved) {
    values.saved.push_back({tensor, peft_values(file, saved_tensor_in(file, tensor))});
  }
  return values;
}

void save_adapter(const Adapter& adapter, const std::filesystem::path& folder) {
  write_peft_adapter(values_of(adapter), folder);
}

Adapter load_adapter(Context& context, const std::filesystem::path& folder,
                     const std::vector<AdapterSite>& sites,
                     const std::vector<SavedTensor>& savable) {
  return to_device(context, read_peft_adapter(folder, sites, savable));
}

AdapterConfig read_adapter_config(const std::filesystem::path& folder) {
  return read_peft_config(folder);
}

}  // namespace clora
