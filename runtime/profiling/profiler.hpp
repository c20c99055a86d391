// Profiler: device time per operation, from the events of a profiling queue, with the bytes and
// flops that each operation's cost function declares, and the device's idle time between commands.
// Off unless ContextConfig::profile is set; when off, it is not called.
//
// Commands are registered once (op) and counted at every run (add), so counting a replay compares
// no strings. Events are read and released as they complete: memory does not grow with the number
// of replays.
// Threads: one at a time. Events must come in the order of an in-order queue.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "clora/runtime/device/device_health.hpp"
#include "clora/runtime/device/opencl_handles.hpp"
#include "clora/runtime/profiling/roofline.hpp"
#include "clora/runtime/profiling/trace.hpp"

namespace clora {

enum class ProfileBy { op, shape };

// One row: an op, or an op of one shape.
struct OpTime {
  std::string op;
  std::string shape;  // empty with ProfileBy::op
  std::uint64_t count = 0;
  double seconds = 0;           // on the device, start to end
  double gap_seconds = 0;       // idle time of the device before it
  Cost cost;                    // summed
  double roofline_seconds = 0;  // minimum time for the cost; 0 without peaks

  // roofline_seconds as a fraction of seconds; above 1 if data came from caches.
  double share_of_roofline() const { return seconds > 0 ? roofline_seconds / seconds : 0; }
};

// Idle time of the device between the end of a command and the start of the next one.
struct GapTime {
  std::string after;   // the op before the gap
  std::string before;  // the op after the gap
  std::uint64_t count = 0;
  double seconds = 0;
  double longest_seconds = 0;
};

struct GapSummary {
  std::uint64_t count = 0;
  double seconds = 0;
  double wall_seconds = 0;     // from the first command's start to the last one's end
  std::vector<GapTime> pairs;  // in descending order of their sums
};

class Profiler {
 public:
  Profiler() = default;
  Profiler(const Profiler&) = delete;
  Profiler& operator=(const Profiler&) = delete;
  ~Profiler();

  // Adds every later command to `trace`, on a device track of this name.
  void trace_to(std::shared_ptr<Trace> trace, std::string_view track_name);

  // Applies the wait limit of `health` to later waits. For a lost Context, only completed commands
  // are counted.
  void watch(std::shared_ptr<DeviceHealth> health) { health_ = std::move(health); }

  // The number of this kind of command; equal arguments share a number for the lifetime of the
  // Profiler.
  std::size_t op(std::string_view label, std::string_view shape, Cost cost);
  // Called just before a command is enqueued: with a trace, it reads the host's clock, which the
  // device's clock is aligned to.
  void before_enqueue() {
    if (trace_ != nullptr) enqueue_begins_ = Trace::Clock::now();
  }
  // Adds the command just enqueued. Takes ownership of one reference to `event`. REQUIRES: op()
  // returned the number.
  void add(std::size_t op, cl_event event);
  void add(std::string_view label, Cost cost, cl_event event) { add(op(label, "", cost), event); }

  // Waits for the commands added so far and counts them. Errors: device, device_lost. The reports
  // below call it first.
  void collect();
  // In descending order of seconds.
  std::vector<OpTime> times(ProfileBy by = ProfileBy::op, const RooflinePeaks& peaks = {});
  GapSummary gaps();
  // times() and gaps() as text for people: op, count, total, mean, share, gap, GB/s, GFLOP/s and,
  // if peaks are known, the percentage of them; then the gaps.
  std::string table(ProfileBy by = ProfileBy::op, const RooflinePeaks& peaks = {});
  // Discards all counts.
  void clear();

  // Commands whose events have no times: they failed, or their queue does not profile.
  std::uint64_t untimed() const noexcept { return untimed_; }
  // Commands added and not yet counted.
  std::size_t pending() const noexcept { return pending_.size(); }

 private:
  struct Op {
    std::string label;
    std::string shape;
    Cost cost;                // of one launch
    std::uint32_t kind = 0;   // in the trace
    std::uint64_t count = 0;  // this and the following: counted so far
    std::uint64_t ns = 0;
    std::uint64_t gap_ns = 0;
  };
  struct Gap {
    std::uint64_t count = 0;
    std::uint64_t ns = 0;
    std::uint64_t longest_ns = 0;
  };
  struct Pending {
    std::size_t op;
    cl_event event;
    Trace::Clock::time_point enqueue_begin;
    Trace::Clock::time_point enqueue_end;
  };
  struct Timed {
    std::size_t op;
    std::uint64_t queued_ns;
    std::uint64_t start_ns;
    std::uint64_t end_ns;
    Trace::Clock::time_point enqueue_begin;
    Trace::Clock::time_point enqueue_end;
  };

  void collect_completed();
  void wait_for_last();
  void read_first(std::size_t count);
  void count(const Timed& command);
  void put_into_trace(const std::vector<Timed>& commands);

  std::deque<Op> ops_;
  std::map<std::tuple<std::string, std::string, Cost>, std::size_t> numbers_;
  std::map<std::pair<std::size_t, std::size_t>, Gap> gaps_;  // by the ops before and after
  std::deque<Pending> pending_;
  std::size_t collect_at_ = 0;
  std::uint64_t untimed_ = 0;
  bool any_counted_ = false;
  std::size_t last_op_ = 0;
  std::uint64_t first_start_ns_ = 0;
  std::uint64_t last_end_ns_ = 0;

  std::shared_ptr<DeviceHealth> health_;
  std::shared_ptr<Trace> trace_;
  std::uint32_t track_ = 0;
  Trace::Clock::time_point enqueue_begins_{};
  Trace::Clock::time_point traced_until_{};
};

}  // namespace clora
