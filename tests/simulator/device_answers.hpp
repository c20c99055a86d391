// For libraries to preload that change what an OpenCL device reports of itself: the driver's own
// functions, and the results of queries.
// REQUIRES: CL_TARGET_OPENCL_VERSION is defined.
#pragma once

#include <CL/cl.h>
#include <dlfcn.h>

#include <cstring>

namespace clora::simulator {

// REAL(clGetDeviceInfo): the function that the preloaded one replaces.
template <class Function>
Function* real(Function*, const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}
#define REAL(function) ::clora::simulator::real(&(function), #function)

// Returns `bytes` at `value` as the result of a query.
inline cl_int answer(const void* value, std::size_t bytes, std::size_t room, void* to,
                     std::size_t* size) {
  if (size != nullptr) *size = bytes;
  if (to == nullptr) return CL_SUCCESS;
  if (room < bytes) return CL_INVALID_VALUE;
  std::memcpy(to, value, bytes);
  return CL_SUCCESS;
}
template <class T>
cl_int answer(T value, std::size_t room, void* to, std::size_t* size) {
  return answer(&value, sizeof value, room, to, size);
}
inline cl_int answer(const char* text, std::size_t room, void* to, std::size_t* size) {
  return answer(text, std::strlen(text) + 1, room, to, size);
}

}  // namespace clora::simulator
