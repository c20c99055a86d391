// PinnedMemory: a little host memory that a GPU reads and writes by itself. Transfers between it
// and tensors (Context::write_async, read_async) do not keep the caller, where the driver copies
// other memory before or after and waits for that.
// Threads: those of its Context, which it must not outlive.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "runtime/host_hold.hpp"
#include "runtime/opencl_handles.hpp"

namespace clora {

// A buffer of the driver's, mapped as long as it lives; plain memory where the driver gives none.
// Nothing may use it any more when it dies.
class PinnedBytes {
 public:
  PinnedBytes(cl_context context, cl_command_queue queue, std::size_t bytes);
  ~PinnedBytes();
  PinnedBytes(const PinnedBytes&) = delete;
  PinnedBytes& operator=(const PinnedBytes&) = delete;

  std::span<std::byte> bytes() const noexcept { return bytes_; }

 private:
  cl_command_queue queue_;
  cl_mem mem_;  // owned
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
