#include "runtime/device_health.hpp"

#include <utility>

#include "runtime/error.hpp"

namespace clora {

DeviceHealth::DeviceHealth(std::string device_name, double stuck_after_seconds)
    : device_name_(std::move(device_name)), stuck_after_seconds_(stuck_after_seconds) {}

void DeviceHealth::require_usable(std::string_view who) const {
  if (!lost()) return;
  const std::lock_guard lock(mutex_);
  fail(ErrorCode::device_lost, "{}: the context of '{}' is lost ({}); make a new Context", who,
       device_name_, reason_);
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

}  // namespace clora
