// Adapters: new ones, those of files, and their parameters as one flat array.
#include "clora/lora/adapter.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <set>

#include "clora/model/adapter_files/adapter_files.hpp"
#include "clora/model/transformer/adapter_sites.hpp"
#include "clora/model/transformer/principal_start.hpp"
#include "clora/model/transformer/saved_tensors.hpp"
#include "clora/model/weights/stored_ends.hpp"
#include "lora/hub_cache.hpp"
#include "lora/module_selection.hpp"
#include "lora/saved_tensors.hpp"
#include "model/transformer/adapter_start.hpp"
#include "python/src/arrays.hpp"
#include "python/src/bindings.hpp"
#include "python/src/loaded_model.hpp"
#include "runtime/fail.hpp"

namespace nb = nanobind;

namespace clora::python {
namespace {

constexpr const char* kWho = "LoraConfig";

// What a new adapter is; the fields are those of PEFT's LoraConfig.
struct AdapterOptions {
  AdapterConfig config;
  bool all_linear = true;
  std::string bias = "none";
  std::string start = "lora";
  std::uint64_t seed = 0;
};

bool names_path(std::string_view name, std::string_view path) {
  if (!path.ends_with(name)) return false;
  return path.size() == name.size() || path[path.size() - name.size() - 1] == '.';
}

// A misspelt name would silently leave layers out.
void require_names(const std::vector<std::string>& names, const std::vector<AdapterSite>& sites) {
  for (const std::string& name : names) {
    const auto is_named = [&](const AdapterSite& site) { return names_path(name, site.path); };
    if (std::ranges::any_of(sites, is_named)) continue;
    std::set<std::string> valid;
    for (const AdapterSite& site : sites) valid.insert(site.path.substr(site.path.rfind('.') + 1));
    std::string list;
    for (const std::string& each : valid) list += (list.empty() ? "" : ", ") + each;
    fail(ErrorCode::invalid_argument,
         "{}: target_modules must name layers of the model (all-linear, {}), got '{}'", kWho, list,
         name);
  }
}

// all-linear is what select_sites() makes of it, in the form that files can hold.
AdapterConfig with_targets(const AdapterOptions& options, const ModelConfig& model,
                           const std::vector<AdapterSite>& sites) {
  AdapterConfig config = options.config;
  if (!options.all_linear) {
    if (!config.targets_are_regex) require_names(config.target_modules, sites);
    return config;
  }
  std::set<std::string> names;
  for (const AdapterSite& site : select_sites(model, {"all-linear"}, 0)) {
    names.insert(site.path.substr(site.path.rfind('.') + 1));
  }
  config.target_modules.assign(names.begin(), names.end());
  return config;
}

std::vector<AdapterModule> modules_of(const AdapterConfig& config,
                                      const std::vector<AdapterSite>& sites) {
  ModuleSelection selection(config, kWho);
  std::vector<AdapterModule> modules;
  for (const AdapterSite& site : sites) {
    if (!selection.selects(site.path)) continue;
    const std::int64_t rank = selection.rank(site.path);
    const double scale = adapter_scale(config, selection.alpha(site.path), rank);
    modules.push_back({.site = site, .rank = rank, .scale = static_cast<float>(scale)});
  }
  require(!modules.empty(), "{}: the configuration must select at least one layer, got none", kWho);
  return modules;
}

std::vector<SavedTensor> trained_tensors(const ModelConfig& model, const AdapterConfig& config,
                                         const std::vector<AdapterModule>& modules) {
  require_savable(model, config);
  std::vector<AdapterSite> adapted;
  for (const AdapterModule& module : modules) adapted.push_back(module.site);
  return select_trained_tensors(savable_tensors(model), config, adapted, kWho);
}

Adapter made_adapter(LanguageModel& model, const AdapterOptions& options,
                     const std::optional<PrincipalStart>& start) {
  const auto sites = all_adapter_sites(model.config());
  AdapterConfig config = with_targets(options, model.config(), sites);
  config.biases = named_biases(options.bias);
  const auto modules = modules_of(config, sites);
  Adapter adapter(model.context(), modules, config,
                  trained_tensors(model.config(), config, modules));
  adapter.initialise(options.seed);
  if (start) check_principal_start(adapter);
  initialise_from_model(model, adapter, start);
  return adapter;
}

AdapterHandle create(const ModelHandle& model, const AdapterOptions& given) {
  AdapterOptions options = given;
  const std::string id = hub_id_of(model->path);
  options.config.base_model = id.empty() ? model->path : id;
  const auto start = principal_start_of(options.start);
  require(start || options.start == "lora",
          "{}: init_lora_weights must be True, 'pissa' or 'olora', got '{}'", kWho, options.start);
  const std::int64_t trained_ranks = options.config.rank;
  if (start) {  // the first matrices are kept beside the trained ones, with the same scale
    require(options.config.rank_pattern.empty() && options.config.alpha_pattern.empty(),
            "{}: init_lora_weights '{}' takes neither rank_pattern nor alpha_pattern", kWho,
            options.start);
    options.config.rank *= 2;
    options.config.alpha *= 2;
  }
  auto made = std::make_shared<LoadedAdapter>(
      model->context(), [&] { return made_adapter(*model->model, options, start); });
  made->frozen_ranks = start ? trained_ranks : 0;
  return made;
}

AdapterHandle load(const ModelHandle& model, const std::string& path) {
  return std::make_shared<LoadedAdapter>(model->context(), [&] {
    Adapter adapter = load_adapter(model->context()->context, path, model->model->config());
    require_stored_ends(path, model->files.all());
    return adapter;
  });
}

// format: "peft", "mlx" or "gguf".
nb::dict save(const LoadedModel& model, const LoadedAdapter& self, const std::string& path,
              const std::string& format) {
  const AdapterFormat named = named_adapter_format(format);
  const ConversionNotes notes = on_device(self.context(), [&] {
    return write_adapter(values_of(*self.adapter), named, model.model->config(), path);
  });
  nb::dict dict;
  dict["folded"] = notes.folded;
  dict["rounded"] = notes.rounded;
  dict["padded"] = notes.padded;
  return dict;
}

Array<float> parameters(const LoadedAdapter& self) {
  const ContextHandle& shared = self.context();
  auto values =
      on_device(shared, [&] { return shared->context.read<float>(self.adapter->parameters()); });
  const std::size_t count = values.size();
  return array_of(std::move(values), {count});
}

void set_parameters(LoadedAdapter& self, const HostArray<float>& values) {
  const Tensor& flat = self.adapter->parameters();
  require(static_cast<std::int64_t>(values.size()) == flat.elements(),
          "adapter: {} parameters are required, got {}", flat.elements(), values.size());
  const std::span all(values.data(), values.size());
  ++self.version;
  on_device(self.context(), [&] { self.context()->context.write(flat, std::as_bytes(all)); });
}

nb::dict facts_of(const AdapterModule& module, bool has_magnitude) {
  nb::dict facts;
  facts["path"] = module.site.path;
  facts["inputs"] = module.site.inputs;
  facts["outputs"] = module.site.outputs;
  facts["rank"] = module.rank;
  facts["scale"] = module.scale;
  facts["a_offset"] = module.a_offset;
  facts["bt_offset"] = module.bt_offset;
  if (has_magnitude) facts["magnitude_offset"] = module.magnitude_offset;
  return facts;
}

nb::list modules(const LoadedAdapter& self) {
  nb::list all;
  for (const AdapterModule& module : self.adapter->modules()) {
    all.append(facts_of(module, self.adapter->config().use_dora));
  }
  return all;
}

nb::list saved_tensors(const LoadedAdapter& self) {
  nb::list all;
  for (const SavedTensor& tensor : self.adapter->saved_tensors()) {
    nb::list shape;
    for (int i = 0; i < tensor.shape.rank(); ++i) shape.append(tensor.shape[i]);
    all.append(nb::make_tuple(tensor.name, nb::tuple(shape), tensor.offset));
  }
  return all;
}

void bind_options(nb::module_& module) {
  nb::class_<AdapterOptions>(module, "AdapterOptions")
      .def(nb::init<>())
      .def_rw("all_linear", &AdapterOptions::all_linear)
      .def_rw("bias", &AdapterOptions::bias)
      .def_rw("start", &AdapterOptions::start)
      .def_rw("seed", &AdapterOptions::seed)
      .def_prop_rw(
          "config", [](AdapterOptions& self) -> AdapterConfig& { return self.config; },
          [](AdapterOptions& self, const AdapterConfig& config) { self.config = config; },
          nb::rv_policy::reference_internal);
  nb::class_<AdapterConfig>(module, "AdapterConfig")
      .def(nb::init<>())
      .def_rw("rank", &AdapterConfig::rank)
      .def_rw("alpha", &AdapterConfig::alpha)
      .def_rw("dropout", &AdapterConfig::dropout)
      .def_rw("rank_stabilised", &AdapterConfig::rank_stabilised)
      .def_rw("target_modules", &AdapterConfig::target_modules)
      .def_rw("targets_are_regex", &AdapterConfig::targets_are_regex)
      .def_rw("exclude_modules", &AdapterConfig::exclude_modules)
      .def_rw("excludes_are_regex", &AdapterConfig::excludes_are_regex)
      .def_rw("layers_to_transform", &AdapterConfig::layers_to_transform)
      .def_rw("layers_pattern", &AdapterConfig::layers_pattern)
      .def_rw("rank_pattern", &AdapterConfig::rank_pattern)
      .def_rw("alpha_pattern", &AdapterConfig::alpha_pattern)
      .def_rw("use_dora", &AdapterConfig::use_dora)
      .def_rw("modules_to_save", &AdapterConfig::modules_to_save)
      .def_prop_ro("bias",
                   [](const AdapterConfig& self) { return std::string(name_of(self.biases)); });
}

}  // namespace

void bind_adapter(nb::module_& module) {
  bind_options(module);
  nb::class_<LoadedAdapter>(module, "Adapter")
      .def_prop_ro("modules", &modules)
      .def_prop_ro("saved_tensors", &saved_tensors)
      .def_prop_ro("config", [](const LoadedAdapter& self) { return self.adapter->config(); })
      .def_prop_ro("trainable_parameters",
                   [](const LoadedAdapter& self) { return self.adapter->trainable_parameters(); })
      .def_prop_ro("version", [](const LoadedAdapter& self) { return self.version.load(); })
      .def("parameters", &parameters)
      .def("set_parameters", &set_parameters, nb::arg("values"));
  module.def("create_adapter", &create, nb::arg("model"), nb::arg("options"));
  module.def("load_adapter", &load, nb::arg("model"), nb::arg("path"));
  module.def("save_adapter", &save, nb::arg("model"), nb::arg("adapter"), nb::arg("path"),
             nb::arg("format"));
}

}  // namespace clora::python
