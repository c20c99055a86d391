// Makes the OpenCL device of a phone or a board out of any other one: a GPU with OpenCL 1.2 without
// extensions, buffers of at most 256 MiB (or SMALL_DEVICE_BUFFER_MIB), work-groups of at most 128
// items and 16 KiB of local memory. A library to preload, as tools/check_small_device does. What
// exceeds the limits fails with the error of such a driver, and so do functions and queries of
// later versions.
#define CL_TARGET_OPENCL_VERSION 300
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "tests/simulator/device_answers.hpp"

namespace {

using clora::simulator::answer;

constexpr std::size_t kWorkGroup = 128;
constexpr cl_ulong kLocalMemory = cl_ulong{16} << 10U;
// The device queries of OpenCL 2.0 to 3.0; those of vendors have higher numbers.
constexpr cl_device_info kFirstLaterQuery = CL_DEVICE_IMAGE_PITCH_ALIGNMENT;
constexpr cl_device_info kLastLaterQuery = 0x10FF;

cl_ulong largest_buffer() {
  const char* const text = std::getenv("SMALL_DEVICE_BUFFER_MIB");
  return (text == nullptr ? cl_ulong{256} : std::strtoull(text, nullptr, 10)) << 20U;
}

template <class T>
T value_of(cl_device_id device, cl_device_info what) {
  T value{};
  REAL(clGetDeviceInfo)(device, what, sizeof value, &value, nullptr);
  return value;
}

cl_ulong local_memory_of(cl_kernel kernel, cl_device_id device) {
  cl_ulong bytes = 0;
  REAL(clGetKernelWorkGroupInfo)
  (kernel, device, CL_KERNEL_LOCAL_MEM_SIZE, sizeof bytes, &bytes, nullptr);
  return bytes;
}

}  // namespace

extern "C" {

cl_int clGetDeviceInfo(cl_device_id device, cl_device_info what, std::size_t room, void* to,
                       std::size_t* size) {
  switch (what) {
    case CL_DEVICE_TYPE:
      return answer<cl_device_type>(CL_DEVICE_TYPE_GPU, room, to, size);
    case CL_DEVICE_NAME:
      return answer("small device", room, to, size);
    case CL_DEVICE_VERSION:
      return answer("OpenCL 1.2 small", room, to, size);
    case CL_DEVICE_OPENCL_C_VERSION:
      return answer("OpenCL C 1.2 small", room, to, size);
    case CL_DEVICE_EXTENSIONS:
      return answer("", room, to, size);
    case CL_DEVICE_IMAGE_SUPPORT:
      return answer<cl_bool>(CL_FALSE, room, to, size);
    case CL_DEVICE_MAX_MEM_ALLOC_SIZE:
      return answer(std::min(largest_buffer(), value_of<cl_ulong>(device, what)), room, to, size);
    case CL_DEVICE_LOCAL_MEM_SIZE:
      return answer(std::min(kLocalMemory, value_of<cl_ulong>(device, what)), room, to, size);
    case CL_DEVICE_MAX_WORK_GROUP_SIZE:
      return answer(std::min(kWorkGroup, value_of<std::size_t>(device, what)), room, to, size);
    case CL_DEVICE_MAX_WORK_ITEM_SIZES: {
      const std::size_t sizes[] = {kWorkGroup, kWorkGroup, kWorkGroup};
      return answer(sizes, sizeof sizes, room, to, size);
    }
    default:
      if (what >= kFirstLaterQuery && what <= kLastLaterQuery) return CL_INVALID_VALUE;
      return REAL(clGetDeviceInfo)(device, what, room, to, size);
  }
}

cl_mem clCreateBuffer(cl_context context, cl_mem_flags flags, std::size_t bytes, void* host,
                      cl_int* status) {
  if (bytes > largest_buffer()) {
    if (status != nullptr) *status = CL_INVALID_BUFFER_SIZE;
    return nullptr;
  }
  return REAL(clCreateBuffer)(context, flags, bytes, host, status);
}

cl_command_queue clCreateCommandQueueWithProperties(cl_context, cl_device_id,
                                                    const cl_queue_properties*, cl_int* status) {
  if (status != nullptr) *status = CL_INVALID_OPERATION;  // of OpenCL 2.0
  return nullptr;
}

cl_int clSetKernelArgSVMPointer(cl_kernel, cl_uint, const void*) { return CL_INVALID_OPERATION; }

cl_int clBuildProgram(cl_program program, cl_uint count, const cl_device_id* devices,
                      const char* options, void(CL_CALLBACK* notify)(cl_program, void*),
                      void* data) {
  if (std::string_view(options).find("-cl-std=CL1.2") == std::string_view::npos) {
    return CL_INVALID_BUILD_OPTIONS;
  }
  return REAL(clBuildProgram)(program, count, devices, options, notify, data);
}

cl_int clGetKernelWorkGroupInfo(cl_kernel kernel, cl_device_id device,
                                cl_kernel_work_group_info what, std::size_t room, void* to,
                                std::size_t* size) {
  const cl_int status = REAL(clGetKernelWorkGroupInfo)(kernel, device, what, room, to, size);
  if (what == CL_KERNEL_WORK_GROUP_SIZE && status == CL_SUCCESS && to != nullptr) {
    auto& items = *static_cast<std::size_t*>(to);
    items = std::min(items, kWorkGroup);
  }
  return status;
}

cl_int clEnqueueNDRangeKernel(cl_command_queue queue, cl_kernel kernel, cl_uint dimensions,
                              const std::size_t* offset, const std::size_t* global,
                              const std::size_t* local, cl_uint waits, const cl_event* before,
                              cl_event* event) {
  std::size_t items = 1;
  for (cl_uint i = 0; local != nullptr && i < dimensions; ++i) items *= local[i];
  if (items > kWorkGroup) return CL_INVALID_WORK_GROUP_SIZE;
  cl_device_id device = nullptr;
  clGetCommandQueueInfo(queue, CL_QUEUE_DEVICE, sizeof device, &device, nullptr);
  if (local_memory_of(kernel, device) > kLocalMemory) return CL_OUT_OF_RESOURCES;
  return REAL(clEnqueueNDRangeKernel)(queue, kernel, dimensions, offset, global, local, waits,
                                      before, event);
}
}
