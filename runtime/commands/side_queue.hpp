// SideQueue: a second in-order queue of a Context's device, for transfers that run while the
// Context's own queue computes.
//
// Nothing orders the two queues: before a transfer, the caller waits for a fence after the last
// command that writes the tensor; before it enqueues a command that reads what a transfer wrote,
// for the fence of that transfer. Not profiled. Must not outlive the Context. Threads: those of the
// Context, one at a time.
#pragma once

#include <cstddef>
#include <span>

#include "clora/runtime/context.hpp"

namespace clora {

class SideQueue {
 public:
  // Errors: device.
  explicit SideQueue(Context& context);
  // Waits for the enqueued transfers, unless the Context is lost.
  ~SideQueue();
  SideQueue(const SideQueue&) = delete;
  SideQueue& operator=(const SideQueue&) = delete;

  // As Context::read_async() and write_async(); flushed. `bytes` must stay valid until the fence
  // has passed; only from pinned memory (runtime/memory/pinned_memory.hpp) the call itself does not
  // wait for the device. Nothing is transferred in a dry run. Errors: device, device_lost.
  Fence read(const Tensor& src, std::span<std::byte> bytes);
  Fence write(const Tensor& dst, std::span<const std::byte> bytes);

 private:
  template <class Call>
  Fence enqueue(std::string_view who, Call call);

  Context& context_;
  cl_command_queue queue_;  // owned
};

}  // namespace clora
