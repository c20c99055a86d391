#include "runtime/device/opencl.hpp"

#include <fmt/format.h>

#include <array>
#include <utility>

namespace clora {
namespace {

constexpr std::array<std::pair<cl_int, std::string_view>, 26> kNames{{
    {CL_DEVICE_NOT_FOUND, "CL_DEVICE_NOT_FOUND"},
    {CL_DEVICE_NOT_AVAILABLE, "CL_DEVICE_NOT_AVAILABLE"},
    {CL_COMPILER_NOT_AVAILABLE, "CL_COMPILER_NOT_AVAILABLE"},
    {CL_MEM_OBJECT_ALLOCATION_FAILURE, "CL_MEM_OBJECT_ALLOCATION_FAILURE"},
    {CL_OUT_OF_RESOURCES, "CL_OUT_OF_RESOURCES"},
    {CL_OUT_OF_HOST_MEMORY, "CL_OUT_OF_HOST_MEMORY"},
    {CL_MEM_COPY_OVERLAP, "CL_MEM_COPY_OVERLAP"},
    {CL_BUILD_PROGRAM_FAILURE, "CL_BUILD_PROGRAM_FAILURE"},
    {CL_MISALIGNED_SUB_BUFFER_OFFSET, "CL_MISALIGNED_SUB_BUFFER_OFFSET"},
    {CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST, "CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST"},
    {CL_INVALID_VALUE, "CL_INVALID_VALUE"},
    {CL_INVALID_DEVICE, "CL_INVALID_DEVICE"},
    {CL_INVALID_CONTEXT, "CL_INVALID_CONTEXT"},
    {CL_INVALID_COMMAND_QUEUE, "CL_INVALID_COMMAND_QUEUE"},
    {CL_INVALID_MEM_OBJECT, "CL_INVALID_MEM_OBJECT"},
    {CL_INVALID_BINARY, "CL_INVALID_BINARY"},
    {CL_INVALID_BUILD_OPTIONS, "CL_INVALID_BUILD_OPTIONS"},
    {CL_INVALID_KERNEL_NAME, "CL_INVALID_KERNEL_NAME"},
    {CL_INVALID_ARG_INDEX, "CL_INVALID_ARG_INDEX"},
    {CL_INVALID_ARG_VALUE, "CL_INVALID_ARG_VALUE"},
    {CL_INVALID_ARG_SIZE, "CL_INVALID_ARG_SIZE"},
    {CL_INVALID_KERNEL_ARGS, "CL_INVALID_KERNEL_ARGS"},
    {CL_INVALID_WORK_GROUP_SIZE, "CL_INVALID_WORK_GROUP_SIZE"},
    {CL_INVALID_GLOBAL_WORK_SIZE, "CL_INVALID_GLOBAL_WORK_SIZE"},
    {CL_INVALID_BUFFER_SIZE, "CL_INVALID_BUFFER_SIZE"},
    {-1001, "CL_PLATFORM_NOT_FOUND_KHR"},
}};

}  // namespace

std::string opencl_status_text(cl_int status) {
  for (const auto& [code, name] : kNames) {
    if (code == status) return std::string(name);
  }
  return fmt::format("OpenCL status {}", status);
}

bool means_no_memory(cl_int status) noexcept {
  return status == CL_MEM_OBJECT_ALLOCATION_FAILURE || status == CL_OUT_OF_RESOURCES ||
         status == CL_OUT_OF_HOST_MEMORY || status == CL_INVALID_BUFFER_SIZE;
}

cl_int enqueue_zeros(cl_command_queue queue, cl_mem mem, std::size_t offset, std::size_t bytes,
                     cl_event* event) {
  const cl_uint zero = 0;
  const std::size_t rest = bytes % sizeof zero;
  const std::size_t words = bytes - rest;
  if (words > 0) {
    const cl_int status = clEnqueueFillBuffer(queue, mem, &zero, sizeof zero, offset, words, 0,
                                              nullptr, rest == 0 ? event : nullptr);
    if (status != CL_SUCCESS || rest == 0) return status;
  }
  return clEnqueueFillBuffer(queue, mem, &zero, 1, offset + words, rest, 0, nullptr, event);
}

void check_opencl(cl_int status, std::string_view call) {
  if (status == CL_SUCCESS) return;
  throw Error(ErrorCode::device, fmt::format("{}: {}", call, opencl_status_text(status)), status);
}

}  // namespace clora
