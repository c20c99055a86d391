// SharedContext: a Context that Python's threads may share, and objects that live on it.
//
// A Context is used by one thread at a time, but the interpreter's lock (the GIL) is released while
// the device works, so a second lock serialises the calls. It is taken only after the GIL has been
// released: a thread never waits for it while it holds the GIL. It is recursive, since a callback
// of a training run may use the model.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "clora/runtime/context.hpp"

namespace clora::python {

struct SharedContext : std::enable_shared_from_this<SharedContext> {
  explicit SharedContext(const ContextConfig& config) : context(config) {}

  Context context;
  std::recursive_mutex mutex;
};
using ContextHandle = std::shared_ptr<SharedContext>;

// Calls `work` without the GIL if this thread holds it.
template <class Work>
decltype(auto) without_gil(Work&& work) {
  std::optional<nanobind::gil_scoped_release> released;
  if (PyGILState_Check() == 1) released.emplace();
  return std::forward<Work>(work)();
}

// Calls `work`, which uses the device, without the GIL and as the only user of the Context.
template <class Work>
decltype(auto) on_device(const ContextHandle& context, Work&& work) {
  return without_gil([&]() -> decltype(auto) {
    const std::scoped_lock lock(context->mutex);
    return std::forward<Work>(work)();
  });
}

// Errors: those of Context.
inline ContextHandle make_context(const ContextConfig& config) {
  const auto destroy = [](SharedContext* context) {  // waits for the device
    without_gil([context] { delete context; });
  };
  return without_gil(
      [&] { return ContextHandle(std::make_unique<SharedContext>(config).release(), destroy); });
}

// An object of a Context, which it keeps alive. The last Python reference to it may disappear in
// any thread, so that the object is destroyed as it is used: under the Context's lock.
template <class T>
class OnContext {
 public:
  // make() returns the object; it is called on the device.
  template <class Make>
  OnContext(ContextHandle context, Make&& make) : context_(std::move(context)) {
    on_device(context_, [&] { value_.reset(new T(std::forward<Make>(make)())); });
  }
  ~OnContext() {
    on_device(context_, [this] { value_.reset(); });
  }
  OnContext(const OnContext&) = delete;
  OnContext& operator=(const OnContext&) = delete;

  const ContextHandle& context() const noexcept { return context_; }
  T& operator*() const noexcept { return *value_; }
  T* operator->() const noexcept { return value_.get(); }

 private:
  ContextHandle context_;
  std::unique_ptr<T> value_;
};

}  // namespace clora::python
