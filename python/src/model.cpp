// Models: loading, logits, and merging with an adapter.
#include "clora/model/transformer/language_model.hpp"

#include <nanobind/stl/function.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "clora/model/export/gguf_model.hpp"
#include "clora/model/text/tokenizer_files.hpp"
#include "clora/model/weights/fuse.hpp"
#include "clora/runtime/files/json.hpp"
#include "lora/hub_cache.hpp"
#include "python/src/arrays.hpp"
#include "python/src/bindings.hpp"
#include "python/src/device_tensor.hpp"
#include "python/src/loaded_model.hpp"

namespace nb = nanobind;

namespace clora::python {
namespace {

using Progress = std::function<bool(double)>;

ModelHandle load(const ContextHandle& context, const std::string& path, std::int64_t context_length,
                 const Progress& progress) {
  return without_gil([&] {
    return std::make_shared<LoadedModel>(
        context, resolve_hub_path(path).string(),
        LoadOptions{.progress = progress, .context_length = context_length});
  });
}

// REQUIRES: on the device.
ForwardPass& forward_of(LoadedModel& self, const AdapterHandle& adapter) {
  const std::uint64_t version = adapter ? adapter->version.load() : 0;
  if (!self.forward || self.forward->adapter != adapter || self.forward->version != version) {
    self.forward.reset();
    auto pass = std::make_unique<ForwardPass>(*self.model, adapter_or_null(adapter));
    self.forward = std::make_unique<LoadedModel::Forward>(
        LoadedModel::Forward{.adapter = adapter, .version = version, .pass = std::move(pass)});
  }
  return *self.forward->pass;
}

Array<float> logits(LoadedModel& self, const std::vector<std::int32_t>& ids,
                    const AdapterHandle& adapter, bool last) {
  auto values = on_device(self.context(), [&] {
    return forward_of(self, adapter).logits(ids, last ? LogitRows::last : LogitRows::all);
  });
  const std::size_t rows = last ? 1 : ids.size();
  const std::size_t columns = values.size() / rows;
  return array_of(std::move(values), {rows, columns});
}

// The forward pass keeps its adapter alive.
void forget_forward(LoadedModel& self) {
  on_device(self.context(), [&] { self.forward.reset(); });
}

// The model merged with an adapter, or alone (null), as a folder of Hugging Face's format.
void fuse_folder(const LoadedModel& self, const AdapterHandle& adapter, const std::string& folder,
                 const std::string& type) {
  const FuseOptions options{.type = type_named(type)};
  on_device(self.context(), [&] {
    write_fused_model(self.files, adapter_or_null(adapter), folder, options);
    write_tokenizer_files(self.path, folder);
  });
}

// The same as one GGUF file; type: of the matrices, or empty for those of the model's files.
nb::dict fuse_gguf(const LoadedModel& self, const AdapterHandle& adapter, const std::string& path,
                   const std::string& type) {
  GgufModelOptions options;
  if (!type.empty()) options.type = type_named(type);
  const GgufModelSummary written = on_device(self.context(), [&] {
    return write_gguf_model(self.files, adapter_or_null(adapter), path, options);
  });
  nb::dict dict;
  dict["bytes"] = written.bytes;
  dict["copied"] = written.copied;
  dict["converted"] = written.converted;
  dict["other_types"] = written.other_types;
  dict["missing_tokenizer"] = written.missing_tokenizer;
  dict["tokenizer_warning"] = written.tokenizer_warning;
  return dict;
}

}  // namespace

void bind_model(nb::module_& module) {
  nb::class_<LoadedModel>(module, "Model")
      .def_prop_ro("path", [](const LoadedModel& self) { return self.path; })
      .def_prop_ro("context", [](const LoadedModel& self) { return self.context(); })
      .def_prop_ro("weight_bytes",
                   [](const LoadedModel& self) { return self.model->weight_bytes(); })
      .def_prop_ro("vocabulary",
                   [](const LoadedModel& self) { return self.model->config().vocabulary; })
      .def_prop_ro("max_positions",
                   [](const LoadedModel& self) { return self.model->config().max_positions; })
      .def_prop_ro("eos_ids", [](const LoadedModel& self) { return self.model->config().eos_ids; })
      .def_prop_ro("config_json",
                   [](const LoadedModel& self) {
                     return json_text(to_hugging_face_json(self.model->config()));
                   })
      .def("logits", &logits, nb::arg("ids"), nb::arg("adapter").none(), nb::arg("last"))
      .def("forget_forward", &forget_forward)
      .def("fuse_folder", &fuse_folder, nb::arg("adapter").none(), nb::arg("folder"),
           nb::arg("type"))
      .def("fuse_gguf", &fuse_gguf, nb::arg("adapter").none(), nb::arg("path"), nb::arg("type"));
  module.def("load_model", &load, nb::arg("context"), nb::arg("path"), nb::arg("context_length"),
             nb::arg("progress"));
}

}  // namespace clora::python
