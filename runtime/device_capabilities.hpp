// What a device can do, beyond what Device holds for choosing kernels: for people who look.
#pragma once

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

}  // namespace clora
