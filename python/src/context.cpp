// Contexts: a device with its memory, its profile and its programs.
#include "clora/runtime/context.hpp"

#include <nanobind/stl/function.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>

#include <functional>
#include <string>

#include "clora/runtime/profiling/profiler.hpp"
#include "python/src/bindings.hpp"
#include "python/src/shared_context.hpp"
#include "runtime/fail.hpp"

namespace nb = nanobind;

namespace clora::python {
namespace {

using Log = std::function<void(int level, std::string message)>;

ContextConfig config_of(const std::string& device, std::size_t memory_bytes,
                        const std::string& precision, bool profile, const Log& log) {
  ContextConfig config = config_from_environment();
  if (device != "auto") config.device = device;
  config.memory_limit_bytes = memory_bytes;
  require(precision == "auto" || precision == "f32",
          "precision: 'auto' or 'f32' is required, got '{}'", precision);
  config.precision = precision == "f32" ? Precision::f32 : Precision::automatic;
  config.profile = profile;
  config.hooks.log = [log](LogLevel level, std::string_view message) {
    if (level >= LogLevel::info) log(static_cast<int>(level), std::string(message));
  };
  return config;
}

nb::dict facts_of(const Device& device) {
  nb::dict facts;
  facts["index"] = device.index;
  facts["name"] = device.name;
  facts["platform"] = device.platform;
  facts["driver"] = device.driver;
  facts["kind"] = std::string(name_of(device.kind));
  facts["matrix_unit"] = std::string(name_of(device.matrix_unit));
  facts["compute_units"] = device.compute_units;
  facts["memory_bytes"] = device.memory_bytes;
  facts["max_allocation_bytes"] = device.max_allocation_bytes;
  return facts;
}

nb::list devices() {
  nb::list all;
  for (const Device& device : without_gil(list_devices)) all.append(facts_of(device));
  return all;
}

nb::dict memory(const ContextHandle& shared) {
  const MemoryStatistics now =
      on_device(shared, [&] { return shared->context.pool().statistics(); });
  nb::dict bytes;
  bytes["in_use"] = now.in_use_bytes;
  bytes["cached"] = now.cached_bytes;
  bytes["high_water"] = now.high_water_bytes;
  bytes["limit"] = now.limit_bytes;
  for (std::size_t tag = 0; tag < kMemoryTags; ++tag) {
    bytes[nb::str(std::string(name_of(static_cast<MemoryTag>(tag))).c_str())] = now.by_tag[tag];
  }
  return bytes;
}

nb::dict row_of(const OpTime& time) {
  nb::dict row;
  row["op"] = time.op;
  row["shape"] = time.shape;
  row["count"] = time.count;
  row["seconds"] = time.seconds;
  row["gap_seconds"] = time.gap_seconds;
  row["bytes"] = time.cost.bytes;
  row["flops"] = time.cost.flops;
  return row;
}

nb::list profile(const ContextHandle& shared, bool by_shape) {
  require(shared->context.profiling(),
          "profile: the context must be created with profile=True, got False");
  const auto by = by_shape ? ProfileBy::shape : ProfileBy::op;
  const auto times = on_device(shared, [&] { return shared->context.profiler().times(by); });
  nb::list rows;
  for (const OpTime& time : times) rows.append(row_of(time));
  return rows;
}

void clear_profile(const ContextHandle& shared) {
  on_device(shared, [&] {
    if (!shared->context.profiling()) return;
    shared->context.profiler().collect();
    shared->context.profiler().clear();
  });
}

}  // namespace

void bind_context(nb::module_& module) {
  nb::class_<SharedContext>(module, "Context")
      .def_prop_ro("device",
                   [](const SharedContext& self) { return facts_of(self.context.device()); })
      .def_prop_ro("variant", [](const SharedContext& self) {
        return std::string(name_of(self.context.variant()));
      });
  module.def(
      "make_context",
      [](const std::string& device, std::size_t memory_bytes, const std::string& precision,
         bool profile, const Log& log) {
        return make_context(config_of(device, memory_bytes, precision, profile, log));
      },
      nb::arg("device"), nb::arg("memory_bytes"), nb::arg("precision"), nb::arg("profile"),
      nb::arg("log"));
  module.def("devices", &devices);
  module.def("memory", &memory, nb::arg("context"));
  module.def("profile", &profile, nb::arg("context"), nb::arg("by_shape"));
  module.def("clear_profile", &clear_profile, nb::arg("context"));
  module.def(
      "finish",
      [](const ContextHandle& shared) { on_device(shared, [&] { shared->context.finish(); }); },
      nb::arg("context"));
}

}  // namespace clora::python
