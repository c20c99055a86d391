#include "clora/runtime/device/device_health.hpp"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <thread>
#include <utility>

#include "runtime/device/opencl.hpp"
#include "runtime/fail.hpp"

namespace clora {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kLongest = 1e9;  // seconds; larger values overflow the clock's arithmetic
// pocl 3.1 does not call back for every event that failed, so a wait with a callback also polls.
constexpr double kPollWithCallback = 0.25;  // seconds
constexpr double kPoll = 1e-3;              // longest pause between polls, in seconds
constexpr double kWithoutPause = 2e-3, kShortPause = 20e-6;

// The event's state: positive while it is not complete, negative if it or the query failed.
cl_int state_of(cl_event event) {
  cl_int state = CL_QUEUED;
  const cl_int status =
      clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, nullptr);
  return status == CL_SUCCESS ? state : status;
}

}  // namespace

// Receives the driver's callback. One Signal serves all waits of a Context: one thread waits at a
// time, and after a wait that ended without its callback no further callback is requested.
struct DeviceHealth::Signal {
  std::mutex mutex;
  std::condition_variable condition;
  bool fired = false;
  cl_int status = CL_COMPLETE;
  bool orphaned = false;  // a callback may still come

  bool request_callback(cl_event event) {
    if (orphaned) return false;
    fired = false;
    orphaned = clSetEventCallback(event, CL_COMPLETE, &Signal::fire, this) == CL_SUCCESS;
    return orphaned;
  }

  // Whether the callback came within the given time.
  bool wait_for(double seconds) {
    std::unique_lock lock(mutex);
    const bool came = condition.wait_for(lock, Seconds(seconds), [this] { return fired; });
    orphaned = !came;
    return came;
  }

  static void CL_CALLBACK fire(cl_event /*event*/, cl_int status, void* self) {
    auto& signal = *static_cast<Signal*>(self);
    // Notifies under the lock: the waiter may destroy the signal as soon as it holds the lock.
    const std::lock_guard lock(signal.mutex);
    signal.fired = true;
    signal.status = status;
    signal.condition.notify_one();
  }
};

DeviceHealth::DeviceHealth(std::string device_name, double stuck_after_seconds, Waiting waiting)
    : device_name_(std::move(device_name)),
      stuck_after_seconds_(std::min(stuck_after_seconds, kLongest)),
      waiting_(waiting),
      signal_(std::make_unique<Signal>()) {}

DeviceHealth::~DeviceHealth() {
  if (signal_->orphaned) (void)signal_.release();
}

void DeviceHealth::require_usable(std::string_view who) const {
  if (!lost()) return;
  const std::lock_guard lock(mutex_);
  fail(ErrorCode::device_lost, "{}: the context of '{}' is lost ({}); create a new Context", who,
       device_name_, reason_);
}

void DeviceHealth::notice(int status, std::string_view who) {
  // NVIDIA's driver returns the queue or context status after a kernel crashed.
  const bool gone = status == CL_DEVICE_NOT_AVAILABLE || status == CL_INVALID_DEVICE ||
                    status == CL_INVALID_CONTEXT || status == CL_INVALID_COMMAND_QUEUE;
  if (gone) lose(who, status);
}

void DeviceHealth::mark_lost(std::string_view reason) noexcept {
  const std::lock_guard lock(mutex_);
  if (lost_.load(std::memory_order_relaxed)) return;
  try {
    reason_ = reason;
  } catch (...) {  // no memory for the text: lost without a reason
  }
  lost_.store(true, std::memory_order_release);
}

int DeviceHealth::outcome(cl_event event, std::string_view who) {
  require_usable(who);
  return state_of(event);
}

bool DeviceHealth::passed(cl_event event, std::string_view who) {
  const cl_int state = outcome(event, who);
  if (state < 0) lose(who, state);
  if (state == CL_COMPLETE) return true;
  flush();
  return false;
}

// Submits commands that the driver has buffered. A failure is detected by the wait that follows.
void DeviceHealth::flush() const noexcept {
  if (queue_ != nullptr) clFlush(queue_);
}

// Pauses between two polls of an event: at first not at all, then longer, so that a short wait has
// low latency and a long one leaves the core to others.
void DeviceHealth::pause(Seconds waited) const {
  const bool at_once = waiting_ == Waiting::looking && waited < Seconds(kWithoutPause);
  if (at_once) {
    std::this_thread::yield();
  } else {
    std::this_thread::sleep_for(std::clamp(waited / 16, Seconds(kShortPause), Seconds(kPoll)));
  }
}

// False if there was no progress for too long; otherwise *status is the final status of the event
// or the wait.
bool DeviceHealth::wait_limited(cl_event event, int* status) {
  flush();
  const bool called_back = waiting_ == Waiting::asleep && signal_->request_callback(event);
  const Clock::time_point begin = Clock::now();
  Clock::time_point moved = begin;
  cl_int state = CL_QUEUED;
  for (;;) {
    if (!called_back) {
      pause(Clock::now() - begin);
    } else if (signal_->wait_for(std::min(kPollWithCallback, stuck_after_seconds_))) {
      *status = std::min(signal_->status, state_of(event));  // either may report a failure
      return true;
    }
    *status = state_of(event);
    // The callback of a complete event is about to come.
    if (*status == CL_COMPLETE && called_back) (void)signal_->wait_for(kPollWithCallback);
    if (*status <= CL_COMPLETE) return true;
    const bool elsewhere = progressed_ && progressed_();
    if (*status != std::exchange(state, *status) || elsewhere) moved = Clock::now();
    if (Clock::now() - moved >= Seconds(stuck_after_seconds_)) return false;
  }
}

int DeviceHealth::wait_for_outcome(cl_event event, std::string_view who) {
  int state = outcome(event, who);
  if (state <= CL_COMPLETE) return state;
  if (stuck_after_seconds_ <= 0) {
    const cl_int status = clWaitForEvents(1, &event);
    return status == CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST ? outcome(event, who) : status;
  }
  if (wait_limited(event, &state)) return state;
  stuck_.store(true, std::memory_order_release);
  mark_lost(fmt::format("no progress for {} s", stuck_after_seconds_));
  fail(ErrorCode::device_lost,
       "{}: '{}' made no progress for {} s; the context is lost, create a new Context", who,
       device_name_, stuck_after_seconds_);
}

void DeviceHealth::wait(cl_event event, std::string_view who) {
  const int status = wait_for_outcome(event, who);
  if (status < 0) lose(who, status);
}

void DeviceHealth::finish(std::string_view who) {
  require_usable(who);
  cl_event event = nullptr;
  const cl_int status = clEnqueueMarkerWithWaitList(queue_, 0, nullptr, &event);
  notice(status, who);
  check_opencl(status, who);
  OwnedEvent end(event);
  try {
    wait(event, who);
  } catch (...) {
    if (stuck()) (void)end.release();
    throw;
  }
}

// If the driver refuses the marker or the query of its state, the wait has no time limit; if the
// device is gone, it is short.
bool DeviceHealth::drain() noexcept {
  if (queue_ == nullptr || stuck()) return !stuck();
  cl_event end = nullptr;
  const bool is_limited = stuck_after_seconds_ > 0 &&
                          clEnqueueMarkerWithWaitList(queue_, 0, nullptr, &end) == CL_SUCCESS;
  int status = CL_INVALID_EVENT;
  try {
    if (is_limited && !wait_limited(end, &status)) stuck_.store(true, std::memory_order_release);
  } catch (...) {
    stuck_.store(true, std::memory_order_release);
  }
  if (stuck()) return false;
  if (is_limited) clReleaseEvent(end);
  return status == CL_COMPLETE || clFinish(queue_) == CL_SUCCESS || lost();
}

void DeviceHealth::lose(std::string_view who, int status) {
  drain();
  const std::string reason = fmt::format("a command failed: {}", opencl_status_text(status));
  mark_lost(reason);
  throw Error(ErrorCode::device_lost,
              fmt::format("{}: {} on '{}'; the context is lost, create a new Context", who, reason,
                          device_name_),
              status);
}

}  // namespace clora
