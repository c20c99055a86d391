// DeviceHealth: whether a Context's device still answers. Shared by the Context, its batches,
// fences and pool, so that after a loss every call says so at once instead of hanging.
//
// A Context is lost when a command failed on the device, when the device vanished, or when it made
// no progress for stuck_after_seconds. A lost Context stays lost: make a new one. Failures that
// leave the device as it was (no memory, a kernel that does not build, a bad argument) do not lose
// it; docs/reliability.md has the list.
// Threads: lost() and mark_lost() from any; the rest from the Context's.
#pragma once

#include <atomic>
#include <mutex>
#include <string>
#include <string_view>

namespace clora {

class DeviceHealth {
 public:
  // stuck_after_seconds 0: wait for ever.
  DeviceHealth(std::string device_name, double stuck_after_seconds);

  bool lost() const noexcept { return lost_.load(std::memory_order_acquire); }
  // Throws Error(device_lost) "who: the context of 'pocl-...' is lost (reason); make a new Context"
  // where it is.
  void require_usable(std::string_view who) const;
  // The first reason is kept.
  void mark_lost(std::string_view reason) noexcept;

  double stuck_after_seconds() const noexcept { return stuck_after_seconds_; }

 private:
  std::string device_name_;
  double stuck_after_seconds_;
  std::atomic<bool> lost_ = false;
  mutable std::mutex mutex_;  // guards reason_
  std::string reason_;
};

}  // namespace clora
