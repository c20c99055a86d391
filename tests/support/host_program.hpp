// HostProgram: the OpenCL objects of a program that embeds the library, and their reference counts.
#pragma once

#include <chrono>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "clora/runtime/context.hpp"
#include "runtime/device/opencl.hpp"

namespace clora::test {

cl_uint references(cl_context context);
cl_uint references(cl_command_queue queue);
cl_uint references(cl_mem mem);
cl_uint references(cl_event event);

// The reference count once it has been constant for a while: a driver's threads release the
// references of a command shortly after they report its end.
template <class Object>
cl_uint stable_references(Object object) {
  constexpr int kReads = 5;
  cl_uint count = references(object);
  for (int same = 0; same < kReads;) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    const cl_uint now = references(object);
    same = now == count ? same + 1 : 0;
    count = now;
  }
  return count;
}

// A context with one queue on the device that CLORA_DEVICE selects.
class HostProgram {
 public:
  explicit HostProgram(cl_command_queue_properties properties = 0);

  AdoptedQueue adopted() const { return {context.get(), device, queue.get()}; }
  OwnedQueue another_queue(cl_command_queue_properties properties) const;
  OwnedMem buffer(std::size_t bytes) const;
  OwnedMem sub_buffer(cl_mem mem, std::size_t offset_bytes, std::size_t bytes) const;
  // Both wait for the device.
  void write(cl_mem mem, std::span<const float> values) const;
  std::vector<float> read(cl_mem mem, std::size_t count) const;
  // y[i] = factor * x[i]. Does not wait.
  void enqueue_scale(cl_mem y, cl_mem x, float factor, std::size_t count) const;

  cl_device_id device;
  std::size_t alignment;  // of sub-buffers, in bytes
  OwnedContext context;
  OwnedQueue queue;
  OwnedProgram program;
};

}  // namespace clora::test
