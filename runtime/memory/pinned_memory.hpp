// PinnedMemory: a small amount of host memory that a GPU accesses directly. Transfers between it
// and tensors (Context::write_async, read_async) do not block the caller. For other host memory the
// driver makes an extra copy and waits for it. For other devices than GPUs it is plain memory.
// Threads: those of its Context, which it must not outlive.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "clora/runtime/device/opencl_handles.hpp"
#include "runtime/memory/host_hold.hpp"

namespace clora {

// A buffer of the driver, mapped as long as this object lives; plain memory if the driver provides
// none, or if context is null. REQUIRES: nothing uses it when it is destroyed.
class PinnedBytes {
 public:
  PinnedBytes(cl_context context, cl_command_queue queue, std::size_t bytes);
  ~PinnedBytes();
  PinnedBytes(const PinnedBytes&) = delete;
  PinnedBytes& operator=(const PinnedBytes&) = delete;

  std::span<std::byte> bytes() const noexcept { return bytes_; }

 private:
  cl_command_queue queue_;
  cl_mem mem_ = nullptr;  // owned
  std::vector<std::byte> plain_;
  std::span<std::byte> bytes_;
};

class PinnedMemory {
 public:
  PinnedMemory(Context& context, std::size_t bytes);

  std::span<std::byte> bytes() const noexcept { return held_->bytes(); }

 private:
  HostHold<PinnedBytes> held_;
};

}  // namespace clora
