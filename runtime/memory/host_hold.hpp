// HostHold: host memory that commands on a Context's queue read or write, kept until they are done.
//
// A transfer without a wait uses its caller's memory after the call has returned. If an error is
// thrown in between, that memory must not be freed before the queue is idle. The destructor of a
// HostHold waits for that. A stuck device may access the memory at any time, so the memory is then
// leaked: one step's staging, once per lost Context.
// Threads: those of its Context, which it must not outlive.
#pragma once

#include <memory>
#include <utility>

#include "clora/runtime/context.hpp"

namespace clora {

// Waits until no enqueued command on the Context's queue is running. False if that is unknown.
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
    if (value_ != nullptr && !idle_ && !drain_queue(*context_)) (void)value_.release();
  }

  explicit operator bool() const noexcept { return value_ != nullptr; }
  T& operator*() const noexcept { return *value_; }
  T* operator->() const noexcept { return value_.get(); }

  // Records that a fence after the last use has passed, so no further wait is needed.
  void mark_idle() noexcept { idle_ = true; }

 private:
  Context* context_ = nullptr;
  std::unique_ptr<T> value_;
  bool idle_ = false;
};

}  // namespace clora
