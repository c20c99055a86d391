// Checks of the folders in which programs keep files for later starts, for doctors: the program
// cache, pocl's cache, downloaded models. Threads: as list_devices(), and as std::getenv.
#pragma once

#include <filesystem>
#include <vector>

#include "clora/runtime/device/device.hpp"
#include "tools/command_line/health/health_report.hpp"

namespace clora {

// The cache folder (default_cache_folder()): whether it can be written, whether only this user can
// write the code in it, its size, damaged programs, and the free space of its file system.
HealthFindings check_cache_folder(const std::filesystem::path& cache_folder);

// The folder in which pocl caches machine code, if a device is pocl's.
HealthFindings check_pocl_cache(const std::vector<Device>& devices,
                                const std::filesystem::path& cache_folder);

// The folder of tools/fetch_demo_model (CLORA_MODEL_CACHE), if there is one.
HealthFindings check_downloaded_models();

}  // namespace clora
