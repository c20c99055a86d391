#include "tools/clora/used_device_checks.hpp"

#include <algorithm>
#include <optional>

#include "clora/runtime/context.hpp"
#include "clora/runtime/error.hpp"
#include "ops/tuned/tuned.hpp"
#include "runtime/environment_variable.hpp"
#include "tools/command_line/cached_programs.hpp"

namespace clora {
namespace {

std::optional<Device> selected_device(const std::string& selector) {
  try {
    return select_device(selector);
  } catch (const Error&) {
    return std::nullopt;
  }
}

HealthFindings check_choice(const std::vector<Device>& devices, const Device& used,
                            const std::string& selector) {
  HealthFindings found{
      {Health::good,
       fmt::format("device {} is used{}", used.index,
                   selector.empty() ? " by default" : fmt::format(": '{}' selects it", selector))}};
  const auto gpu = std::ranges::find(devices, DeviceKind::gpu, &Device::kind);
  if (used.kind == DeviceKind::gpu || gpu == devices.end()) return found;
  found.push_back({Health::note, fmt::format("the GPU {} is not used", gpu->name),
                   "use '--device gpu', or unset CLORA_DEVICE"});
  return found;
}

std::string_view arithmetic_of(const Capabilities& capabilities) {
  if (capabilities.rounds_products()) {
    return "bf16 with sums in f32 (f32 with --precision f32)";
  }
  if (capabilities.integer_dots != IntegerDots::none) {
    return "f32, in decoding 16-bit integers (f32 with --precision f32)";
  }
  return "f32";
}

// Sets `capabilities` unless the variant is invalid; an invalid CLORA_VARIANT is a finding of
// check_environment().
HealthFindings check_variant(const Device& device, std::optional<Capabilities>& capabilities) {
  const std::string wanted = environment_variable("CLORA_VARIANT");
  Variant variant = Variant::automatic;
  try {
    if (!wanted.empty()) variant = variant_of(wanted);
    variant = resolve(variant, Precision::automatic, device);
    capabilities = capped(all_capabilities(device), variant);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::invalid_argument) return {};
    return {{Health::bad, error.what(), "unset CLORA_VARIANT"}};
  }
  return {{Health::good, fmt::format("kernels: {}, matrix products in {}", name_of(variant),
                                     arithmetic_of(*capabilities))}};
}

bool is_of(const CachedProgram& program, const Device& device) {
  if (!program.facts || !program.problem().empty()) return false;
  const ProgramKey& key = program.facts->key;
  return key.platform == device.platform && key.device == device.name &&
         key.driver == device.driver && key.opencl_version == device.opencl_version;
}

// docs/performance.md, "Starting", has the times.
HealthFindings check_compiled(const Device& device) {
  const std::filesystem::path folder = default_cache_folder();
  if (folder.empty()) return {};
  const auto compiled = std::ranges::count_if(
      cached_programs(folder), [&](const CachedProgram& each) { return is_of(each, device); });
  if (compiled > 0) {
    return {
        {Health::good,
         fmt::format("compiled programs of this device and driver in the cache: {}", compiled)}};
  }
  return {{Health::note,
           "no kernels are compiled for this device and driver yet: the first start compiles them "
           "(measured on two CPU cores: 8 s to the first answer, later 0.25 s)",
           "clc cache warm --model MODEL.gguf compiles them in advance"}};
}

bool has_tuned_gemm(const TunedTable& table, const Device& device) {
  return std::ranges::any_of(table.entries(), [&](const TunedEntry& entry) {
    return entry.of.device == device.name && entry.of.file == "gemm.cl";
  });
}

// cl/gemm.cl, the portable product, is the kernel that reads tuned tables.
HealthFindings check_tuned(const Device& device) {
  ContextConfig config;
  config.tuned_table = environment_variable("CLORA_TUNED");
  try {
    if (has_tuned_gemm(TunedTable::read(tuned_table_path(config)), device) ||
        has_tuned_gemm(project_tuned_table(), device)) {
      return {{Health::good, "measured tile sizes of the portable product exist for this device"}};
    }
  } catch (const Error& error) {
    return {{Health::note, error.what(), "remove this file, which is ignored"}};
  }
  return {{Health::note,
           "no measured tile sizes of the portable product exist for this device: it uses the "
           "defaults",
           "clc tune gemm.cl measures them (docs/clc.md, Tuning)"}};
}

}  // namespace

HealthFindings check_used_device(const std::vector<Device>& devices, const std::string& selector) {
  const std::optional<Device> used = selected_device(selector);
  if (!used) {
    return {{Health::bad, fmt::format("no device matches '{}'", selector),
             "change --device or CLORA_DEVICE to the number of a device above"}};
  }
  HealthFindings found = check_choice(devices, *used, selector);
  std::optional<Capabilities> capabilities;
  append(found, check_variant(*used, capabilities));
  append(found, check_compiled(*used));
  if (capabilities && capabilities->is_plain()) append(found, check_tuned(*used));
  return found;
}

}  // namespace clora
