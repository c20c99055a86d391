// Fence: a point in a queue that can be waited for or polled. Move-only. It may outlive its
// Context.
// Threads: fences of one Context, one at a time.
#pragma once

#include <memory>
#include <optional>
#include <utility>

#include "clora/runtime/device/device_health.hpp"
#include "clora/runtime/device/opencl_handles.hpp"

namespace clora {

class Fence {
 public:
  Fence() = default;  // already passed
  // Takes ownership of one reference to `event`. health: of the Context that owns the queue.
  Fence(cl_event event, std::shared_ptr<DeviceHealth> health)
      : event_(event), health_(std::move(health)) {}
  Fence(Fence&& other) noexcept
      : event_(std::exchange(other.event_, nullptr)), health_(std::move(other.health_)) {}
  Fence& operator=(Fence&& other) noexcept;
  Fence(const Fence&) = delete;
  Fence& operator=(const Fence&) = delete;
  // Does not wait.
  ~Fence();

  // Blocks until all commands before the fence are done.
  // Errors: device_lost, at once if the Context is already lost. Otherwise a command failed, or
  // there was no progress for stuck_after_seconds, and the Context is now lost.
  void wait() const;
  // Whether all commands before the fence are done. Errors: device_lost.
  bool passed() const;

  // Waits, then returns the seconds that the fence's command took on the device, from start to end;
  // after Batch::submit() this is the last command of the batch. Nothing if the queue does not
  // profile, and for a fence that has already passed. Errors: those of wait().
  std::optional<double> device_seconds() const;

  // The event, for the caller's OpenCL calls: a wait list, a callback, profiling. Null for a fence
  // that has already passed. The Fence keeps its reference: to use the event after the Fence is
  // gone, call clRetainEvent() and later clReleaseEvent().
  cl_event event() const noexcept { return event_; }
  // Transfers the reference to the caller, which must release it. The Fence then counts as passed.
  cl_event take_event() noexcept { return std::exchange(event_, nullptr); }

 private:
  void release() noexcept;

  cl_event event_ = nullptr;
  std::shared_ptr<DeviceHealth> health_;
};

}  // namespace clora
