// DeviceHealth: whether a Context's device still responds, and all waits for it. Shared by the
// Context, its batches, fences and pool: after a loss every call fails at once instead of hanging.
//
// A Context is lost when a command failed on the device, a wait for it failed, the device
// disappeared, or the device made no progress for stuck_after_seconds. A lost Context stays lost:
// create a new one. Failures that leave the device unchanged (out of memory, a kernel that does not
// build, a bad argument) do not lose the Context; docs/reliability.md has the list.
// After "no progress" the Context is also stuck: commands may still run, or run later. Its OpenCL
// objects are then leaked on purpose, because a driver that is asked to release them may block.
// Host memory passed to an unfinished transfer must stay valid as long as the process lives.
// The limit applies to waits only: a driver that blocks inside an enqueue or a flush cannot be
// timed.
// Threads: lost(), stuck() and mark_lost() from any; the rest from the Context's.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "clora/runtime/device/opencl_handles.hpp"

namespace clora {

class DeviceHealth {
 public:
  // How a wait passes the time: asleep until the driver calls back, or polling, at first without a
  // pause, which occupies a core of the host but none of the device's.
  enum class Waiting { asleep, looking };

  // stuck_after_seconds 0: waits have no time limit.
  DeviceHealth(std::string device_name, double stuck_after_seconds,
               Waiting waiting = Waiting::asleep);
  ~DeviceHealth();
  DeviceHealth(const DeviceHealth&) = delete;
  DeviceHealth& operator=(const DeviceHealth&) = delete;

  bool lost() const noexcept { return lost_.load(std::memory_order_acquire); }
  // Lost because of no progress. The owners of the Context's OpenCL objects must not release them.
  bool stuck() const noexcept { return stuck_.load(std::memory_order_acquire); }
  // Throws Error(device_lost) "who: the context of 'pocl-...' is lost (reason); create a new
  // Context" if the Context is lost.
  void require_usable(std::string_view who) const;
  // Checks the status of an OpenCL call that failed. Errors: device_lost, which also marks the
  // Context, if the status means that the device, or the queue with it, is gone.
  void notice(int status, std::string_view who);
  // Only the first reason is kept.
  void mark_lost(std::string_view reason) noexcept;

  double stuck_after_seconds() const noexcept { return stuck_after_seconds_; }

  // Whether the event is complete; if not, flushes the queue.
  // Errors: device_lost, which also marks the Context, if the event failed or its status is
  // unavailable.
  bool passed(cl_event event, std::string_view who);
  // Blocks until the event is complete, in the Waiting mode (docs/decisions/waiting.md). Allocates
  // no memory itself. Errors: device_lost, which also marks the Context: the event failed, the wait
  // failed, or there was no progress for stuck_after_seconds. Except in the last case, the queue is
  // idle.
  void wait(cl_event event, std::string_view who);
  // The same for all commands enqueued on the watched queue. Errors: device_lost; device, if the
  // driver refused the call and the Context is unchanged.
  void finish(std::string_view who);

  // Waits for the commands that the queue still runs after a failure, so that their memory can be
  // freed. Returns false if completion is unknown: the queue did not drain within the limit, now or
  // before, and the Context is stuck; or the driver refused every way to wait.
  bool drain() noexcept;

  // Sets the Context's queue, which a wait flushes; null when the Context is destroyed. Not owned.
  void watch(cl_command_queue queue) noexcept { queue_ = queue; }
  // A wait that reaches its limit calls `progressed`, which returns whether anything else was
  // completed since its last call; if so, the wait continues. Empty: nothing else counts as
  // progress.
  void set_progress(std::function<bool()> progressed) { progressed_ = std::move(progressed); }

 private:
  struct Signal;

  int outcome(cl_event event, std::string_view who);
  bool wait_limited(cl_event event, int* status);
  int wait_for_outcome(cl_event event, std::string_view who);
  void flush() const noexcept;
  [[noreturn]] void lose(std::string_view who, int status);

  using Seconds = std::chrono::duration<double>;
  void pause(Seconds waited) const;

  std::string device_name_;
  double stuck_after_seconds_;
  Waiting waiting_;
  std::atomic<bool> lost_ = false;
  std::atomic<bool> stuck_ = false;
  mutable std::mutex mutex_;  // guards reason_
  std::string reason_;
  cl_command_queue queue_ = nullptr;
  std::function<bool()> progressed_;
  std::unique_ptr<Signal> signal_;
};

}  // namespace clora
