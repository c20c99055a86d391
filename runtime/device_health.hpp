// DeviceHealth: whether a Context's device still answers, and every wait for it. Shared by the
// Context, its batches, fences and pool, so that after a loss every call says so at once instead of
// hanging.
//
// A Context is lost when a command failed on the device, when a wait for it failed, when the device
// vanished, or when it made no progress for stuck_after_seconds. A lost Context stays lost: make a
// new one. Failures that leave the device as it was (no memory, a kernel that does not build, a bad
// argument) do not lose it; docs/reliability.md has the list.
// After "no progress" the Context is stuck, too: commands may still run, or run later. Its OpenCL
// objects are then left alone for ever, on purpose: a driver asked to release them could block.
// Host memory given to an unfinished transfer must stay valid as long as the process lives.
// A driver that blocks inside an enqueue or a flush cannot be timed: only waits have the limit.
// Threads: lost(), stuck() and mark_lost() from any; the rest from the Context's.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "runtime/opencl_handles.hpp"

namespace clora {

class DeviceHealth {
 public:
  // How a wait passes its time: asleep until the driver calls back, or looking again and again, at
  // first without a pause, which takes a core of the host but none of the device's.
  enum class Waiting { asleep, looking };

  // stuck_after_seconds 0: wait for ever.
  DeviceHealth(std::string device_name, double stuck_after_seconds,
               Waiting waiting = Waiting::asleep);
  ~DeviceHealth();
  DeviceHealth(const DeviceHealth&) = delete;
  DeviceHealth& operator=(const DeviceHealth&) = delete;

  bool lost() const noexcept { return lost_.load(std::memory_order_acquire); }
  // Lost because nothing moved. Whoever owns OpenCL objects of the Context must not release them.
  bool stuck() const noexcept { return stuck_.load(std::memory_order_acquire); }
  // Throws Error(device_lost) "who: the context of 'pocl-...' is lost (reason); make a new Context"
  // where it is.
  void require_usable(std::string_view who) const;
  // Looks at the status of a call that the driver refused. Errors: device_lost, which also marks
  // the Context, where it says that the device, or the queue with it, is gone.
  void notice(int status, std::string_view who);
  // The first reason is kept.
  void mark_lost(std::string_view reason) noexcept;

  double stuck_after_seconds() const noexcept { return stuck_after_seconds_; }

  // Whether the event is complete; starts what the queue still holds back where it is not.
  // Errors: device_lost, which also marks the Context, if the event failed or cannot be asked.
  bool passed(cl_event event, std::string_view who);
  // Blocks until the event is complete, as Waiting says (docs/decisions/waiting.md). Allocates
  // nothing of its own. Errors: device_lost, which also marks the Context: the event failed, the
  // wait failed, or nothing moved for stuck_after_seconds. Except in the last case the queue
  // is idle.
  void wait(cl_event event, std::string_view who);
  // The same for everything enqueued on the watched queue. Errors: device_lost; device, where the
  // driver refused the call and the Context is as it was.
  void finish(std::string_view who);

  // Waits for what the queue still runs after a failure, so that its memory can be freed. False
  // where that cannot be known: it did not drain within the limit, and the Context is stuck,
  // now or before; or the driver refused every way to wait.
  bool drain() noexcept;

  // The Context's queue, flushed by a wait; null once the Context goes. Not owned.
  void watch(cl_command_queue queue) noexcept { queue_ = queue; }
  // A wait at its limit asks whether anything else was completed since it was asked before; while
  // the answer is yes it goes on. Empty: nothing else counts.
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
