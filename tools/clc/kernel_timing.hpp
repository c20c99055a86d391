// Times of a kernel's launches, one by one, by the device's own clock: what `clc bench` and tune
// share. A launch is timed alone, with nothing before or behind it in the queue, so that what is
// told is the kernel's time and not that of its enqueueing.
//
// Warm: each launch finds in the caches what the one before it left there. Cold: between launches
// every compute unit writes memory several times larger than the caches, so that the kernel finds
// its data in memory; a kernel of a model mostly does.
// Threads: those of Context.
#pragma once

#include <cstddef>
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
  // The same as often as the plan says and with its state of the caches, which time_once() then
  // keeps; after warm-ups: two launches, and more until a tenth of
  // plan.seconds is spent. Filling the caches counts as time spent.
  std::vector<double> time(KernelCall& call, const TimingPlan& plan);

 private:
  double timed(Batch& batch);
  void prepare_flush();

  Context& context_;
  CacheState caches_;
  Batch flush_;       // empty until the first cold launch
  double spent_ = 0;  // device seconds of all that was launched
};

// The memory that is read and written between cold launches: four times the cache that the driver
// tells, at least 64 MiB on CPUs and 256 MiB elsewhere, at most a quarter of what the pool may
// hold.
std::size_t flush_bytes(Context& context);

}  // namespace clora
