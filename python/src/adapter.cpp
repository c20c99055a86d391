// Adapters: new ones, those of files, and their parameters as one flat array.
#include "clora/lora/adapter.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "clora/model/adapter_files/adapter_files.hpp"
#include "clora/model/transformer/principal_start.hpp"
#include "clora/model/weights/stored_ends.hpp"
#include "lora/hub_cache.hpp"
#include "model/transformer/configured_adapter.hpp"
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

AdapterHandle create(const ModelHandle& model, const AdapterOptions& options) {
  AdapterConfig config = options.config;
  const std::string id = hub_id_of(model->path);
  config.base_model = id.empty() ? model->path : id;
  config.biases = named_biases(options.bias);
  if (options.all_linear) target_all_linear(config, model->model->config());
  const auto start = principal_start_of(options.start);
  require(start || options.start == "lora",
          "{}: init_lora_weights must be True, 'pissa' or 'olora', got '{}'", kWho, options.start);
  auto made = std::make_shared<LoadedAdapter>(model->context(), [&] {
    return configured_adapter(*model->model, config, {options.seed, start}, kWho);
  });
  made->frozen_ranks = start ? config.rank : 0;
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
