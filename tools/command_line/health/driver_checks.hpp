// Checks of the OpenCL drivers and their devices, for doctors.
// Threads: as list_devices(); `devices` are always those that it returned.
#pragma once

#include <filesystem>
#include <vector>

#include "clora/runtime/device/device.hpp"
#include "tools/command_line/health/health_report.hpp"

namespace clora {

// The drivers registered with the ICD loader: where, and whether their libraries load. A driver
// that does not load is bad only if no other one provides a device.
HealthFindings check_drivers(const std::vector<Device>& devices,
                             const std::filesystem::path& cache_folder);

// Each device with the properties that decide its speed, and what is known against its driver. Bad
// if there is no device.
HealthFindings check_devices(const std::vector<Device>& devices);

}  // namespace clora
