// Fence: a point in a queue that can be waited for or polled. Move-only.
#pragma once

#include <utility>

#include "runtime/opencl_handles.hpp"

namespace clora {

class Fence {
 public:
  Fence() = default;  // already passed
  // Takes over one reference to `event`.
  explicit Fence(cl_event event) : event_(event) {}
  Fence(Fence&& other) noexcept : event_(std::exchange(other.event_, nullptr)) {}
  Fence& operator=(Fence&& other) noexcept;
  Fence(const Fence&) = delete;
  Fence& operator=(const Fence&) = delete;
  ~Fence();

  // Blocks until all commands before the fence are done.
  // Errors: device, if one of them failed.
  void wait() const;
  bool passed() const;
  // Null for a fence already passed; the Fence keeps its reference.
  cl_event event() const noexcept { return event_; }
  // The same with the reference: the caller releases it, and the Fence has passed.
  cl_event take_event() noexcept { return std::exchange(event_, nullptr); }

 private:
  cl_event event_ = nullptr;
};

}  // namespace clora
