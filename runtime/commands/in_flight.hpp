// InFlightLedger: the work that a Context has in flight on its device, over all its batches, and
// the limit on it. The limit keeps a host that runs ahead from filling a driver's queue, and gives
// watchdogs and the no-progress timer regular completions: a batch is submitted in segments with
// one flush each, and a segment waits until the oldest ones have made space.
//
// Seconds are estimates from each command's Cost and rough rates for the kind of device. The limit
// in seconds is corrected by the measured time of full segments. An error of a small factor does no
// harm: work waits slightly early or late, and results are the same.
// No call here allocates. Threads: the Context's.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <memory>
#include <string_view>

#include "clora/runtime/device/device.hpp"
#include "clora/runtime/device/device_health.hpp"
#include "clora/runtime/profiling/profiler.hpp"

namespace clora {

struct InFlightLimits {
  std::size_t commands = 0;  // 0: no limit
  double seconds = 0;        // 0: no limit
};

// Commands and their estimated device time.
struct Work {
  std::size_t commands = 0;
  double seconds = 0;
};

class InFlightLedger {
 public:
  InFlightLedger(const Device& device, std::shared_ptr<DeviceHealth> health, InFlightLimits limits);
  ~InFlightLedger();
  InFlightLedger(const InFlightLedger&) = delete;
  InFlightLedger& operator=(const InFlightLedger&) = delete;

  // Estimated device seconds for `cost`, uncorrected, so callers may store them.
  double estimate(Cost cost) const noexcept;
  // Whether `work` is as large as one segment may be: an eighth of the limit.
  bool fills_segment(Work work) const noexcept;
  // Waits for the oldest segments until `work` fits within the limit; work larger than the limit
  // waits for all of them. Errors: device_lost.
  void make_space(Work work);
  // Adds `work`, which has been enqueued and flushed and ends with the event `last`, which is
  // retained. REQUIRES: make_space() before it was enqueued. Errors: device.
  void add(Work work, cl_event last);

  // Work whose completion has not been observed yet.
  Work work() const noexcept { return work_; }
  // Releases completed segments; returns whether there were any.
  bool reclaim() noexcept;

 private:
  struct Segment {
    Work work;
    cl_event last = nullptr;
  };
  // Two neighbours never fit in one segment, so 4 * 8 of them reach both limits.
  static constexpr std::size_t kCapacity = 64;

  Segment& at(std::size_t i) { return ring_[(begin_ + i) % kCapacity]; }
  double limit_seconds() const noexcept { return limits_.seconds / correction_; }
  bool merge(Work work, cl_event last);
  Segment pop();
  void wait_for_oldest();
  void learn(double estimated, std::chrono::steady_clock::time_point ended);

  std::shared_ptr<DeviceHealth> health_;
  InFlightLimits limits_;
  double flops_per_second_;
  double bytes_per_second_;
  double correction_ = 1;  // measured over estimated
  Work work_;
  std::array<Segment, kCapacity> ring_;
  std::size_t begin_ = 0;
  std::size_t count_ = 0;
  std::chrono::steady_clock::time_point ended_;  // of the segment before the oldest; 0: unknown
};

}  // namespace clora
