// Times single kernel launches by the device's clock, for `clc bench` and `clc tune`. Each launch
// is timed alone, with no other command in the queue, so the time excludes the enqueueing.
//
// Warm: a launch finds in the caches what the previous launch left there. Cold: between launches
// every compute unit writes memory several times larger than the caches, so the kernel reads its
// data from memory, as most kernels of a model do.
// Threads: as for Context.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "clora/runtime/commands/batch.hpp"
#include "clora/runtime/context.hpp"
#include "tools/clc/call/kernel_call.hpp"

namespace clora {

enum class CacheState { warm, cold };

struct TimingPlan {
  CacheState caches = CacheState::warm;
  double seconds = 0.5;         // approximate device time to spend
  int least = 10, most = 1000;  // bounds on the number of launches

  bool wants_more(std::size_t launches, double spent_seconds) const {
    return launches < static_cast<std::size_t>(most) &&
           (launches < static_cast<std::size_t>(least) || spent_seconds < seconds);
  }
};

// Measures device seconds of single launches of a call. A launch works on the arrays as earlier
// launches left them. Must not outlive its Context.
class KernelTimer {
 public:
  // CacheState::cold allocates memory, see flush_bytes(). REQUIRES: a Context with
  // ContextConfig::profile. Errors: out_of_memory, device, build_failed.
  explicit KernelTimer(Context& context, CacheState caches = CacheState::warm);

  // Runs one launch (cold: after flushing the caches), waits, and returns its time; 0 if it is
  // below the resolution of the device's clock. Errors: device, device_lost; unsupported if the
  // device reports no times.
  double time_once(KernelCall& call);
  // Runs untimed launches: two, and more until a tenth of plan.seconds is spent.
  void warm_up(KernelCall& call, const TimingPlan& plan);
  // Warms up, then calls time_once() as often as the plan requires. Sets the timer's cache state to
  // that of the plan.
  std::vector<double> time(KernelCall& call, const TimingPlan& plan);

  // Device seconds of all launches, including those that flush the caches.
  double spent_seconds() const noexcept { return spent_; }

 private:
  double timed(Batch& batch);
  void prepare_flush();

  Context& context_;
  CacheState caches_;
  // A context of the same queue with the built-in kernels, because `context_` may be limited to the
  // kernels of a folder. Null until the first cold launch.
  std::unique_ptr<Context> flush_context_;
  std::optional<Batch> flush_;
  double spent_ = 0;
};

// One of two interleaved calls, with a timer of its Context.
struct Turn {
  KernelTimer& timer;
  KernelCall& call;
};
struct PairedTimes {
  std::vector<double> first, second;  // first[i] and second[i] are of the same round
};
// Measures two calls in alternating rounds of one launch each (A B B A ...), until each has spent
// plan.seconds, or for plan.most rounds. Warm: an untimed launch precedes each timed one, so a call
// does not find the other's data in the caches. REQUIRES: the cache state of both timers is
// plan.caches.
PairedTimes time_in_turns(Turn first, Turn second, const TimingPlan& plan);

// The memory that is read and written between cold launches: four times the cache size that the
// driver reports, at least 64 MiB on CPUs and 256 MiB on other devices, at most a quarter of the
// pool's limit.
std::size_t flush_bytes(Context& context);

}  // namespace clora
