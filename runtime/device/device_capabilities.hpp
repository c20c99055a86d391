// The capabilities of a device, for display; Device has only the ones that choose kernels.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "clora/runtime/device/device.hpp"

namespace clora {

struct Capability {
  std::string name;   // "half precision"
  std::string value;  // "no", "1024 items", "cl_khr_fp16, cl_khr_fp64, ..."
};

// In the same order for every device; a value that the driver does not report is "unknown".
std::vector<Capability> capabilities_of(const Device& device);

// Size of the last-level cache before device memory; 0 if the driver does not report it.
std::uint64_t cache_bytes_of(const Device& device);
// Resolution of the clock that times events; 0 if the driver does not report it.
double clock_step_seconds(const Device& device);
// Whether processes may share the device's compute units: NVIDIA's MPS is in use, with its control
// pipe at the path given by the environment or at the default path. A kernel may then get fewer
// units than the device has.
bool processes_share_units(const Device& device);
// "sm_90": the processor name that NVIDIA's driver reports; empty for other devices.
std::string nvidia_processor_of(const Device& device);

}  // namespace clora
