#include "runtime/commands/in_flight.hpp"

#include <algorithm>
#include <utility>

#include "runtime/device/opencl.hpp"

namespace clora {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kSegments = 8;  // segments per limit

// Throughput of one compute unit per second, at the low end for the kind of device.
struct UnitRates {
  double flops;
  double bytes;
};
constexpr UnitRates kCoreOfCpu{50e9, 10e9};
constexpr UnitRates kUnitOfGpu{30e9, 5e9};
constexpr double kLaunchSeconds = 3e-6;
constexpr double kMaxCorrection = 64;  // and its inverse: a wrong clock has a bounded effect

UnitRates rates_of(const Device& device) {
  return device.kind == DeviceKind::cpu ? kCoreOfCpu : kUnitOfGpu;
}

bool is_complete(cl_event event) {
  cl_int state = CL_QUEUED;
  const cl_int status =
      clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, nullptr);
  return status == CL_SUCCESS && state == CL_COMPLETE;
}

Work operator+(Work a, Work b) { return {a.commands + b.commands, a.seconds + b.seconds}; }

bool within(Work work, std::size_t commands, double seconds) {
  return (commands == 0 || work.commands <= commands) && (seconds <= 0 || work.seconds <= seconds);
}

}  // namespace

InFlightLedger::InFlightLedger(const Device& device, std::shared_ptr<DeviceHealth> health,
                               InFlightLimits limits)
    : health_(std::move(health)), limits_(limits) {
  const auto units = static_cast<double>(std::max<std::size_t>(device.compute_units, 1));
  flops_per_second_ = rates_of(device).flops * units;
  bytes_per_second_ = rates_of(device).bytes * units;
  health_->set_progress([this] { return reclaim(); });
}

InFlightLedger::~InFlightLedger() {
  health_->set_progress({});
  if (health_->stuck()) return;
  while (count_ > 0) clReleaseEvent(pop().last);
}

double InFlightLedger::estimate(Cost cost) const noexcept {
  return kLaunchSeconds + std::max(cost.flops / flops_per_second_, cost.bytes / bytes_per_second_);
}

bool InFlightLedger::fills_segment(Work work) const noexcept {
  const bool commands = limits_.commands > 0 &&
                        work.commands >= std::max<std::size_t>(limits_.commands / kSegments, 1);
  const bool seconds = limits_.seconds > 0 && work.seconds >= limit_seconds() / kSegments;
  return commands || seconds;
}

void InFlightLedger::make_space(Work work) {
  reclaim();
  while (count_ > 0 &&
         (count_ == kCapacity || !within(work_ + work, limits_.commands, limit_seconds()))) {
    wait_for_oldest();
  }
}

// Merges small neighbours, so that many small batches need few segments.
bool InFlightLedger::merge(Work work, cl_event last) {
  if (count_ == 0 || fills_segment(at(count_ - 1).work + work)) return false;
  Segment& newest = at(count_ - 1);
  newest.work = newest.work + work;
  clReleaseEvent(std::exchange(newest.last, last));
  return true;
}

void InFlightLedger::add(Work work, cl_event last) {
  check_opencl(clRetainEvent(last), "batch: clRetainEvent");
  work_ = work_ + work;
  if (merge(work, last)) return;
  at(count_) = {work, last};
  ++count_;
}

InFlightLedger::Segment InFlightLedger::pop() {
  const Segment oldest = std::exchange(at(0), {});
  begin_ = (begin_ + 1) % kCapacity;
  --count_;
  work_.commands -= oldest.work.commands;
  work_.seconds = count_ == 0 ? 0 : work_.seconds - oldest.work.seconds;  // no rounding error
  return oldest;
}

bool InFlightLedger::reclaim() noexcept {
  bool any = false;
  while (count_ > 0 && is_complete(at(0).last)) {
    clReleaseEvent(pop().last);
    ended_ = {};
    any = true;
  }
  return any;
}

void InFlightLedger::wait_for_oldest() {
  const Segment oldest = pop();
  OwnedEvent last(oldest.last);
  try {
    health_->wait(last.get(), "batch: wait for earlier commands");
  } catch (...) {
    if (health_->stuck()) (void)last.release();
    throw;
  }
  learn(oldest.work.seconds, Clock::now());
}

// If two consecutive segments were both waited for, the time between their ends is the duration of
// the second.
void InFlightLedger::learn(double estimated, Clock::time_point ended) {
  if (ended_ != Clock::time_point() && estimated > 0) {
    const double took = std::chrono::duration<double>(ended - ended_).count();
    correction_ =
        std::clamp((3 * correction_ + took / estimated) / 4, 1 / kMaxCorrection, kMaxCorrection);
  }
  ended_ = ended;
}

}  // namespace clora
