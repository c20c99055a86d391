// Makes a GPU of AMD, or with SIMULATED_SUB_GROUP=8 or 16 one of Intel with sub-groups of at least
// that size, out of any other device, by its name, vendor, platform and extensions: a library to
// preload. The driver's compiler stays the other device's, so it lacks the GPU's matrix
// instructions, as a driver may that this program has never met.
#define CL_TARGET_OPENCL_VERSION 300
#include <cstdlib>
#include <cstring>

#include "tests/simulator/device_answers.hpp"

namespace {

using clora::simulator::answer;

constexpr cl_uint kAmd = 0x1002, kIntel = 0x8086;
constexpr cl_device_info kSubGroupSizes = 0x4108;  // cl_intel_required_subgroup_size

// 0 if the GPU is AMD's.
std::size_t least_sub_group() {
  const char* size = std::getenv("SIMULATED_SUB_GROUP");
  return size == nullptr ? 0 : std::strtoul(size, nullptr, 10);
}

cl_int answer_as_intel(cl_device_id device, cl_device_info what, std::size_t room, void* to,
                       std::size_t* size) {
  const std::size_t sub_groups[] = {least_sub_group(), 32};
  switch (what) {
    case CL_DEVICE_NAME:
      return answer("Intel(R) Data Center GPU Max 1550", room, to, size);
    case CL_DEVICE_VENDOR:
      return answer("Intel(R) Corporation", room, to, size);
    case CL_DEVICE_VENDOR_ID:
      return answer(&kIntel, sizeof kIntel, room, to, size);
    case CL_DEVICE_EXTENSIONS:
      return answer("cl_intel_subgroups cl_intel_subgroup_matrix_multiply_accumulate", room, to,
                    size);
    case kSubGroupSizes:
      return answer(sub_groups, sizeof sub_groups, room, to, size);
    default:
      return REAL(clGetDeviceInfo)(device, what, room, to, size);
  }
}

}  // namespace

extern "C" {

cl_int clGetPlatformInfo(cl_platform_id platform, cl_platform_info what, std::size_t room, void* to,
                         std::size_t* size) {
  if (what == CL_PLATFORM_NAME) {
    return answer(
        least_sub_group() > 0 ? "Intel(R) OpenCL Graphics" : "AMD Accelerated Parallel Processing",
        room, to, size);
  }
  return REAL(clGetPlatformInfo)(platform, what, room, to, size);
}

cl_int clGetDeviceInfo(cl_device_id device, cl_device_info what, std::size_t room, void* to,
                       std::size_t* size) {
  constexpr cl_device_type kType = CL_DEVICE_TYPE_GPU;
  if (what == CL_DEVICE_TYPE) return answer(&kType, sizeof kType, room, to, size);
  if (least_sub_group() > 0) return answer_as_intel(device, what, room, to, size);
  switch (what) {
    case CL_DEVICE_NAME:
      return answer("gfx90a:sramecc+:xnack-", room, to, size);
    case CL_DEVICE_VENDOR:
      return answer("Advanced Micro Devices, Inc.", room, to, size);
    case CL_DEVICE_VENDOR_ID:
      return answer(&kAmd, sizeof kAmd, room, to, size);
    default:
      return REAL(clGetDeviceInfo)(device, what, room, to, size);
  }
}
}
