// What a device can do, beyond what Device holds for choosing kernels: for people who look.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/device.hpp"

namespace clora {

struct Capability {
  std::string name;   // "half precision"
  std::string value;  // "no", "1024 items", "cl_khr_fp16, cl_khr_fp64, ..."
};

// In the same order for every device; what the driver does not tell is "unknown".
std::vector<Capability> capabilities_of(const Device& device);

// Of the last-level cache before device memory; 0 where the driver tells none.
std::uint64_t cache_bytes_of(const Device& device);
// The step of the clock by which events are timed; 0 where the driver tells none.
double clock_step_seconds(const Device& device);
// Whether processes may share the device's compute units: NVIDIA's MPS is in use, whose control
// pipe is where the environment or its default says. A kernel may then get fewer units than the
// device has.
bool processes_share_units(const Device& device);
// "sm_90": what NVIDIA's driver tells of its GPU; empty for other devices.
std::string nvidia_processor_of(const Device& device);

}  // namespace clora
