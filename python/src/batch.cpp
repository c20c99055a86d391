// Batches: commands that are recorded once and replayed.
#include "clora/runtime/commands/batch.hpp"

#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>

#include "python/src/bindings.hpp"
#include "python/src/recording.hpp"

namespace nb = nanobind;

namespace clora::python {
namespace {

Recorder* make_batch(const ContextHandle& shared) {
  return new Recorder(shared, [&] { return Batch(shared->context); });
}

}  // namespace

void bind_batch(nb::module_& module) {
  nb::class_<Recorder>(module, "Recorder")
      .def_prop_ro("context", [](const Recorder& self) { return self.context(); })
      .def("commands", [](const Recorder& self) { return self->commands(); })
      .def("launches_text", [](const Recorder& self) { return self->launches_text(); })
      .def("seal", [](Recorder& self) { on_device(self.context(), [&] { self->seal(); }); })
      // Does not wait for the device.
      .def("submit", [](Recorder& self) { on_device(self.context(), [&] { self->submit(); }); })
      .def(
          "fill_zero",
          [](Recorder& self, const DeviceTensor& tensor) {
            record_in(self, [&](Batch& batch) { batch.fill_zero(*tensor); });
          },
          nb::arg("tensor"))
      .def(
          "copy",
          [](Recorder& self, const DeviceTensor& to, const DeviceTensor& from) {
            record_in(self, [&](Batch& batch) { batch.copy(*to, *from); });
          },
          nb::arg("to"), nb::arg("source"));
  module.def("make_batch", &make_batch, nb::arg("context"), nb::rv_policy::take_ownership);
}

}  // namespace clora::python
