// Fence: a point in a queue that can be waited for or polled. Move-only. It may outlive its
// Context.
// Threads: of one Context, one at a time.
#pragma once

#include <memory>
#include <optional>
#include <utility>

#include "runtime/device_health.hpp"
#include "runtime/opencl_handles.hpp"

namespace clora {

class Fence {
 public:
  Fence() = default;  // already passed
  // Takes over one reference to `event`. health: of the Context whose queue it is in.
  Fence(cl_event event, std::shared_ptr<DeviceHealth> health)
      : event_(event), health_(std::move(health)) {}
  Fence(Fence&& other) noexcept
      : event_(std::exchange(other.event_, nullptr)), health_(std::move(other.health_)) {}
  Fence& operator=(Fence&& other) noexcept;
  Fence(const Fence&) = delete;
  Fence& operator=(const Fence&) = delete;
  // Waits for nothing.
  ~Fence();

  // Blocks until all commands before the fence are done.
  // Errors: device_lost, at once where the Context is lost already; else one of the commands
  // failed, or nothing moved for stuck_after_seconds, and the Context is lost now.
  void wait() const;
  // Whether they are done. Errors: device_lost.
  bool passed() const;

  // Waits, then the seconds that the fence's command took on the device, start to end: after
  // Batch::submit() the last one of the batch. Nothing where the queue does not profile, and for a
  // fence already passed. Errors: those of wait().
  std::optional<double> device_seconds() const;

  // For OpenCL calls of the caller's own: a wait list, a callback, profiling. Null for a fence
  // already passed. The Fence keeps its reference: clRetainEvent() an event that is used after the
  // Fence is gone, and clReleaseEvent() it later.
  cl_event event() const noexcept { return event_; }
  // The same with the reference: the caller releases it, and the Fence has passed.
  cl_event take_event() noexcept { return std::exchange(event_, nullptr); }

 private:
  void release() noexcept;

  cl_event event_ = nullptr;
  std::shared_ptr<DeviceHealth> health_;
};

}  // namespace clora
