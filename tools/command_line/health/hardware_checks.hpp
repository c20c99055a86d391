// Checks for GPUs that this machine has and OpenCL does not use, for doctors: device files without
// permission, and missing drivers. Opens each device file for a moment, as a driver does.
// Threads: as list_devices().
#pragma once

#include <filesystem>
#include <vector>

#include "clora/runtime/device/device.hpp"
#include "tools/command_line/health/health_report.hpp"

namespace clora {

// The folders in which Linux describes GPUs; tests use others.
struct HardwareFolders {
  std::filesystem::path devices = "/dev";
  std::filesystem::path graphics = "/sys/class/drm";
};

// Device files (nvidia*, dri/renderD*) that this user may not open, with the group that may.
HealthFindings check_device_files(const HardwareFolders& folders = {});

// GPUs without an OpenCL device of their vendor, with the package that provides it. `devices`: the
// result of list_devices(). GPUs whose device files may not be opened are omitted.
HealthFindings check_unused_gpus(const std::vector<Device>& devices,
                                 const HardwareFolders& folders = {});

}  // namespace clora
