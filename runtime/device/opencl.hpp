// The runtime's view of OpenCL: the C headers, status checks and owning handles. For the .cpp files
// of runtime/ only; public headers use runtime/device/opencl_handles.hpp, which needs no OpenCL
// header.
#pragma once

#define CL_TARGET_OPENCL_VERSION 300
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS  // clCreateCommandQueue
#include <CL/cl.h>

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>

#include "clora/runtime/error.hpp"

namespace clora {

// "CL_OUT_OF_RESOURCES", or "OpenCL status -9999" for a number that the specification does not
// name.
std::string opencl_status_text(cl_int status);

// Throws Error(device) naming `call` unless status is CL_SUCCESS.
void check_opencl(cl_int status, std::string_view call);

// Enqueues a fill of `bytes` bytes from `offset` on with zero words. With a one-byte pattern,
// NVIDIA's driver 580 never returns for fills of more than 2 GiB, and loses the context if the
// range is beyond 2 GiB. With words the same is expected beyond 8 GiB, so nothing fills there.
// event: of the last command; null if none is wanted. REQUIRES: offset is a multiple of 4.
cl_int enqueue_zeros(cl_command_queue queue, cl_mem mem, std::size_t offset, std::size_t bytes,
                     cl_event* event);

// Whether an allocation that failed with this status may succeed once memory is freed.
bool means_no_memory(cl_int status) noexcept;

// An owned OpenCL object, released on destruction.
template <class Handle, auto Release>
struct OpenclRelease {
  using pointer = Handle;
  void operator()(Handle handle) const noexcept { Release(handle); }
};
template <class Handle, auto Release>
using OpenclOwned = std::unique_ptr<std::remove_pointer_t<Handle>, OpenclRelease<Handle, Release>>;

using OwnedContext = OpenclOwned<cl_context, clReleaseContext>;
using OwnedQueue = OpenclOwned<cl_command_queue, clReleaseCommandQueue>;
using OwnedProgram = OpenclOwned<cl_program, clReleaseProgram>;
using OwnedKernel = OpenclOwned<cl_kernel, clReleaseKernel>;
using OwnedMem = OpenclOwned<cl_mem, clReleaseMemObject>;
using OwnedEvent = OpenclOwned<cl_event, clReleaseEvent>;

}  // namespace clora
