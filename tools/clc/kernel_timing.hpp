// Times of a kernel's launches, one by one, by the device's own clock: what `clc bench` and tune
// share. A launch is timed alone, with nothing before or after it in the queue, so that what is
// told is the kernel's time and not that of its enqueueing.
//
// Warm: each launch finds in the caches what the one before it left there. Cold: between launches
// every compute unit writes memory several times larger than the caches, so that the kernel finds
// its data in memory; a kernel of a model mostly does.
// Threads: those of Context.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "runtime/batch.hpp"
#include "runtime/context.hpp"
#include "tools/clc/kernel_call.hpp"

namespace clora {

enum class CacheState { warm, cold };

struct TimingPlan {
  CacheState caches = CacheState::warm;
  double seconds = 0.5;         // of device time to spend, about
  int least = 10, most = 1000;  // launches, whatever `seconds` says

  bool wants_more(std::size_t launches, double spent_seconds) const {
    return launches < static_cast<std::size_t>(most) &&
           (launches < static_cast<std::size_t>(least) || spent_seconds < seconds);
  }
};

// Device seconds of single launches of a call. Launches find in the arrays what those before them
// left. It must not outlive its Context.
class KernelTimer {
 public:
  // For CacheState::cold it takes memory, see flush_bytes(). REQUIRES: a Context with
  // ContextConfig::profile. Errors: out_of_memory, device, build_failed.
  explicit KernelTimer(Context& context, CacheState caches = CacheState::warm);

  // One launch (cold: after the caches were filled with other memory), waited for. 0 where it took
  // less than a step of the device's clock. Errors: device, device_lost; unsupported, where the
  // device tells no times.
  double time_once(KernelCall& call);
  // Launches that nobody counts: two, and more until a tenth of plan.seconds is spent.
  void warm_up(KernelCall& call, const TimingPlan& plan);
  // Warm-ups, then time_once() as often as the plan says. The plan's state of the caches is the
  // timer's from now on.
  std::vector<double> time(KernelCall& call, const TimingPlan& plan);

  // Device seconds of all that was launched, those in which caches were filled counted.
  double spent_seconds() const noexcept { return spent_; }

 private:
  double timed(Batch& batch);
  void prepare_flush();

  Context& context_;
  CacheState caches_;
  // Of the same queue, with the built-in kernels: `context_` may have those of a folder alone.
  // Null until the first cold launch.
  std::unique_ptr<Context> flush_context_;
  std::optional<Batch> flush_;
  double spent_ = 0;
};

// One of two calls that take turns, with a timer of its Context.
struct Turn {
  KernelTimer& timer;
  KernelCall& call;
};
struct PairedTimes {
  std::vector<double> first, second;  // first[i] and second[i] are of one round
};
// Rounds of one launch each, A B B A and so on, until plan.seconds are spent by each, or plan.most
// rounds. Warm: before each launch that is timed, one that is not, so that a call does not find its
// caches full of the other's data. REQUIRES: timers of plan.caches.
PairedTimes time_in_turns(Turn first, Turn second, const TimingPlan& plan);

// The memory that is read and written between cold launches: four times the cache that the driver
// tells, at least 64 MiB on CPUs and 256 MiB elsewhere, at most a quarter of what the pool may
// hold.
std::size_t flush_bytes(Context& context);

}  // namespace clora
