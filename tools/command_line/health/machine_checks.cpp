#include "tools/command_line/health/machine_checks.hpp"

#include "clora/runtime/context.hpp"
#include "clora/runtime/error.hpp"
#include "tools/command_line/health/cache_checks.hpp"
#include "tools/command_line/health/driver_checks.hpp"
#include "tools/command_line/health/environment_checks.hpp"
#include "tools/command_line/health/hardware_checks.hpp"
#include "tools/command_line/health/memory_checks.hpp"

namespace clora {

std::vector<Device> devices_to_check() {
  try {
    return list_devices();
  } catch (const Error&) {
    return {};
  }
}

HealthFindings check_machine(const std::vector<Device>& devices) {
  const std::filesystem::path cache_folder = default_cache_folder();
  HealthFindings found = check_drivers(devices, cache_folder);
  append(found, check_devices(devices));
  append(found, check_device_files());
  append(found, check_unused_gpus(devices));
  append(found, check_memory());
  append(found, check_cache_folder(cache_folder));
  append(found, check_pocl_cache(devices, cache_folder));
  append(found, check_downloaded_models());
  append(found, check_environment());
  return found;
}

}  // namespace clora
