// Makes a GPU of AMD, by its name, vendor and platform, out of any other device: a library to
// preload. The driver's compiler stays the other device's, so it lacks the GPU's matrix
// instructions, as a driver may that this program has never met.
#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl.h>
#include <dlfcn.h>

#include <cstring>

namespace {

constexpr cl_uint kVendor = 0x1002;

template <class Function>
Function* real(Function*, const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}
#define REAL(function) real(&(function), #function)

cl_int answer(const void* value, std::size_t bytes, std::size_t room, void* to, std::size_t* size) {
  if (size != nullptr) *size = bytes;
  if (to == nullptr) return CL_SUCCESS;
  if (room < bytes) return CL_INVALID_VALUE;
  std::memcpy(to, value, bytes);
  return CL_SUCCESS;
}
cl_int answer(const char* text, std::size_t room, void* to, std::size_t* size) {
  return answer(text, std::strlen(text) + 1, room, to, size);
}

}  // namespace

extern "C" {

cl_int clGetPlatformInfo(cl_platform_id platform, cl_platform_info what, std::size_t room, void* to,
                         std::size_t* size) {
  if (what == CL_PLATFORM_NAME) {
    return answer("AMD Accelerated Parallel Processing", room, to, size);
  }
  return REAL(clGetPlatformInfo)(platform, what, room, to, size);
}

cl_int clGetDeviceInfo(cl_device_id device, cl_device_info what, std::size_t room, void* to,
                       std::size_t* size) {
  constexpr cl_device_type kType = CL_DEVICE_TYPE_GPU;
  switch (what) {
    case CL_DEVICE_TYPE:
      return answer(&kType, sizeof kType, room, to, size);
    case CL_DEVICE_NAME:
      return answer("gfx90a:sramecc+:xnack-", room, to, size);
    case CL_DEVICE_VENDOR:
      return answer("Advanced Micro Devices, Inc.", room, to, size);
    case CL_DEVICE_VENDOR_ID:
      return answer(&kVendor, sizeof kVendor, room, to, size);
    default:
      return REAL(clGetDeviceInfo)(device, what, room, to, size);
  }
}
}
