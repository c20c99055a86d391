// Preloaded by clc_build_test and clc_stats_test: a driver whose compiler crashes or hangs if the
// build options request it.
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <string_view>

extern "C" cl_int clBuildProgram(cl_program program, cl_uint count, const cl_device_id* devices,
                                 const char* options, void(CL_CALLBACK* notify)(cl_program, void*),
                                 void* data) {
  if (std::string_view(options).find("CRASH") != std::string_view::npos) std::abort();
  if (std::string_view(options).find("HANG") != std::string_view::npos) ::pause();
  const auto real =
      reinterpret_cast<decltype(&clBuildProgram)>(::dlsym(RTLD_NEXT, "clBuildProgram"));
  return real(program, count, devices, options, notify, data);
}
