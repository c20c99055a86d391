#include "runtime/commands/side_queue.hpp"

#include "runtime/device/opencl.hpp"

namespace clora {
namespace {

std::size_t place_of(const Tensor& tensor) {
  return tensor.storage()->origin + tensor.offset_bytes();
}

}  // namespace

SideQueue::SideQueue(Context& context) : context_(context) {
  cl_int status = CL_SUCCESS;
  queue_ = clCreateCommandQueue(context.opencl_context(), context.device().id, 0, &status);
  check_opencl(status, "side queue: clCreateCommandQueue");
}

SideQueue::~SideQueue() {
  if (context_.health()->stuck()) return;  // a driver may block in the release
  if (!context_.health()->lost()) clFinish(queue_);
  clReleaseCommandQueue(queue_);
}

template <class Call>
Fence SideQueue::enqueue(std::string_view who, Call call) {
  DeviceHealth& health = *context_.health();
  health.require_usable(who);
  if (context_.config().dry_run) return {};
  cl_event event = nullptr;
  const cl_int status = call(&event);
  health.notice(status, who);
  check_opencl(status, who);
  Fence fence(event, context_.health());
  check_opencl(clFlush(queue_), "side queue: clFlush");
  return fence;
}

Fence SideQueue::read(const Tensor& src, std::span<std::byte> bytes) {
  return enqueue("side queue: clEnqueueReadBuffer", [&](cl_event* event) {
    return clEnqueueReadBuffer(queue_, src.storage()->mem, CL_FALSE, place_of(src), bytes.size(),
                               bytes.data(), 0, nullptr, event);
  });
}

Fence SideQueue::write(const Tensor& dst, std::span<const std::byte> bytes) {
  return enqueue("side queue: clEnqueueWriteBuffer", [&](cl_event* event) {
    return clEnqueueWriteBuffer(queue_, dst.storage()->mem, CL_FALSE, place_of(dst), bytes.size(),
                                bytes.data(), 0, nullptr, event);
  });
}

}  // namespace clora
