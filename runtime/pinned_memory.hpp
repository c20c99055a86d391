// PinnedMemory: a little host memory that a card reads and writes by itself. Transfers between it
// and tensors (Context::write_async, read_async) do not keep the caller, where the driver copies
// other memory before or after and waits for that.
//
// Plain memory where the driver gives none. Waits in its destructor until nothing enqueued on the
// Context's queue runs; where the device is stuck, the memory is left to it for ever.
// Threads: those of its Context, which it must not outlive.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "runtime/context.hpp"
#include "runtime/opencl_handles.hpp"

namespace clora {

class PinnedMemory {
 public:
  PinnedMemory(Context& context, std::size_t bytes);
  ~PinnedMemory();
  PinnedMemory(const PinnedMemory&) = delete;
  PinnedMemory& operator=(const PinnedMemory&) = delete;

  std::span<std::byte> bytes() const noexcept { return bytes_; }

 private:
  Context& context_;
  cl_mem mem_ = nullptr;  // owned
  std::vector<std::byte> plain_;
  std::span<std::byte> bytes_;
};

}  // namespace clora
