// Drivers that are installed but not registered with the ICD loader. Containers often have NVIDIA's
// driver and its devices, and only another vendor's .icd file.
// Threads: as DriverCache; changes the environment of the process, before the first OpenCL call.
#pragma once

#include <filesystem>
#include <string>

namespace clora {

struct InstalledDriver {
  std::filesystem::path device;  // exists if the hardware is present
  std::string library;           // as in an .icd file
};

inline const InstalledDriver kNvidiaDriver{"/dev/nvidiactl", "libnvidia-opencl.so.1"};

// The folder with the .icd files that register_installed_driver() writes.
std::filesystem::path own_registry(const std::filesystem::path& cache_folder);

// Whether the loader finds the driver, under any path of its library.
bool is_registered(const InstalledDriver& driver);

// Points the loader (OCL_ICD_VENDORS) to own_registry(cache_folder), which names the registered
// drivers and this one. No-op if the variable is set, the device is missing, the driver is
// registered or does not load, or the folder is not private to the user. Returns whether the loader
// was pointed.
bool register_installed_driver(const InstalledDriver& driver,
                               const std::filesystem::path& cache_folder);

}  // namespace clora
