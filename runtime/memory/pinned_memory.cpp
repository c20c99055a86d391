#include "runtime/memory/pinned_memory.hpp"

#include <utility>

#include "runtime/device/opencl.hpp"

namespace clora {

PinnedBytes::PinnedBytes(cl_context context, cl_command_queue queue, std::size_t bytes)
    : queue_(queue) {
  cl_int status = CL_SUCCESS;
  void* data = nullptr;
  if (context != nullptr) {
    mem_ =
        clCreateBuffer(context, CL_MEM_READ_WRITE | CL_MEM_ALLOC_HOST_PTR, bytes, nullptr, &status);
  }
  if (mem_ != nullptr) {
    data = clEnqueueMapBuffer(queue, mem_, CL_TRUE, CL_MAP_READ | CL_MAP_WRITE, 0, bytes, 0,
                              nullptr, nullptr, &status);
  }
  if (data == nullptr) {
    if (mem_ != nullptr) clReleaseMemObject(std::exchange(mem_, nullptr));
    plain_.resize(bytes);
    data = plain_.data();
  }
  bytes_ = {static_cast<std::byte*>(data), bytes};
}

PinnedBytes::~PinnedBytes() {
  if (mem_ == nullptr) return;
  clEnqueueUnmapMemObject(queue_, mem_, bytes_.data(), 0, nullptr, nullptr);
  clReleaseMemObject(mem_);
}

PinnedMemory::PinnedMemory(Context& context, std::size_t bytes)
    : held_(context, context.device().kind == DeviceKind::gpu ? context.opencl_context() : nullptr,
            context.opencl_queue(), bytes) {}

}  // namespace clora
