#include "runtime/pinned_memory.hpp"

#include <utility>

#include "runtime/host_hold.hpp"
#include "runtime/opencl.hpp"

namespace clora {

PinnedMemory::PinnedMemory(Context& context, std::size_t bytes) : context_(context) {
  cl_int status = CL_SUCCESS;
  mem_ = clCreateBuffer(context.opencl_context(), CL_MEM_READ_WRITE | CL_MEM_ALLOC_HOST_PTR, bytes,
                        nullptr, &status);
  void* data = nullptr;
  if (mem_ != nullptr) {
    data = clEnqueueMapBuffer(context.opencl_queue(), mem_, CL_TRUE, CL_MAP_READ | CL_MAP_WRITE, 0,
                              bytes, 0, nullptr, nullptr, &status);
  }
  if (data == nullptr) {
    if (mem_ != nullptr) clReleaseMemObject(std::exchange(mem_, nullptr));
    plain_.resize(bytes);
    data = plain_.data();
  }
  bytes_ = {static_cast<std::byte*>(data), bytes};
}

PinnedMemory::~PinnedMemory() {
  if (!comes_to_rest(context_)) {  // the device may still touch it
    (void)new std::vector<std::byte>(std::move(plain_));
    return;
  }
  if (mem_ == nullptr) return;
  clEnqueueUnmapMemObject(context_.opencl_queue(), mem_, bytes_.data(), 0, nullptr, nullptr);
  clReleaseMemObject(mem_);
}

}  // namespace clora
