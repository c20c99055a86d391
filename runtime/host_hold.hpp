// HostHold: host memory that commands on a Context's queue read or write, kept until they are done.
//
// A transfer without a wait uses its caller's memory after the call has returned; where an error is
// thrown in between, that memory must not go before the queue is idle. A HostHold waits
// for that in its destructor. Where the device is stuck nobody can know when it will touch the
// memory, so it is left to it for ever: a leak of one step's staging, once in a lost Context.
// Threads: those of its Context, which it must not outlive.
#pragma once

#include <memory>
#include <utility>

#include "runtime/context.hpp"

namespace clora {

// Waits until nothing enqueued on the Context's queue runs. False where that cannot be known.
bool drain_queue(Context& context) noexcept;

template <class T>
class HostHold {
 public:
  HostHold() = default;  // holds nothing
  template <class... Arguments>
  explicit HostHold(Context& context, Arguments&&... arguments)
      : context_(&context), value_(std::make_unique<T>(std::forward<Arguments>(arguments)...)) {}
  HostHold(HostHold&&) noexcept = default;
  HostHold& operator=(HostHold&& other) noexcept {
    std::swap(context_, other.context_);
    std::swap(value_, other.value_);
    std::swap(idle_, other.idle_);
    return *this;
  }
  ~HostHold() {
    if (value_ != nullptr && !idle_ && !drain_queue(*context_)) value_.release();
  }

  explicit operator bool() const noexcept { return value_ != nullptr; }
  T& operator*() const noexcept { return *value_; }
  T* operator->() const noexcept { return value_.get(); }

  // Says that a fence after the last use has passed, so that nobody need wait again.
  void mark_idle() noexcept { idle_ = true; }

 private:
  Context* context_ = nullptr;
  std::unique_ptr<T> value_;
  bool idle_ = false;
};

}  // namespace clora
