#include "clora/runtime/profiling/profiler.hpp"

#include <algorithm>
#include <chrono>
#include <optional>

#include "runtime/device/opencl.hpp"

namespace clora {
namespace {

// Number of new pending commands after which events are polled.
constexpr std::size_t kCollectEvery = 2048;

std::optional<std::uint64_t> time_of(cl_event event, cl_profiling_info what) {
  cl_ulong ns = 0;
  if (clGetEventProfilingInfo(event, what, sizeof ns, &ns, nullptr) != CL_SUCCESS) return {};
  return ns;
}

bool is_over(cl_event event) {
  cl_int state = CL_QUEUED;
  check_opencl(
      clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, nullptr),
      "profiler: clGetEventInfo");
  return state <= CL_COMPLETE;  // negative: it failed
}

double seconds(std::uint64_t ns) { return static_cast<double>(ns) * 1e-9; }

}  // namespace

Profiler::~Profiler() {
  for (const Pending& pending : pending_) clReleaseEvent(pending.event);
}

void Profiler::trace_to(std::shared_ptr<Trace> trace, std::string_view track_name) {
  trace_ = std::move(trace);
  track_ = trace_->device_track(track_name);
  traced_until_ = {};
}

std::size_t Profiler::op(std::string_view label, std::string_view shape, Cost cost) {
  const auto [entry, inserted] =
      numbers_.try_emplace({std::string(label), std::string(shape), cost}, ops_.size());
  if (inserted) {
    ops_.push_back({std::string(label), std::string(shape), cost});
    if (trace_ != nullptr) ops_.back().kind = trace_->kind(label, shape, cost);
  }
  return entry->second;
}

void Profiler::add(std::size_t op, cl_event event) {
  Pending pending{op, event, enqueue_begins_, {}};
  if (trace_ != nullptr) pending.enqueue_end = Trace::Clock::now();
  try {
    pending_.push_back(pending);
  } catch (...) {
    clReleaseEvent(event);
    throw;
  }
  if (pending_.size() >= std::max(collect_at_, kCollectEvery)) collect_completed();
}

void Profiler::wait_for_last() {
  const cl_event last = pending_.back().event;
  if (health_ != nullptr) return health_->wait(last, "profiler");
  // A failed command is not an error here: it is counted as untimed.
  const cl_int status = clWaitForEvents(1, &last);
  if (status != CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST) {
    check_opencl(status, "profiler: clWaitForEvents");
  }
}

void Profiler::collect() {
  if (pending_.empty()) return;
  if (health_ != nullptr && health_->lost()) return collect_completed();  // completed commands
  wait_for_last();
  read_first(pending_.size());
}

// In an in-order queue, completed commands come first.
void Profiler::collect_completed() {
  const auto over = std::ranges::partition_point(
      pending_, [](const Pending& pending) { return is_over(pending.event); });
  read_first(static_cast<std::size_t>(over - pending_.begin()));
  collect_at_ = pending_.size() + kCollectEvery;
}

void Profiler::read_first(std::size_t count_of_commands) {
  std::vector<Timed> timed;
  if (trace_ != nullptr) timed.reserve(count_of_commands);
  for (std::size_t i = 0; i < count_of_commands; ++i) {
    const Pending pending = pending_.front();
    pending_.pop_front();
    const OwnedEvent event(pending.event);
    const auto queued = time_of(event.get(), CL_PROFILING_COMMAND_QUEUED);
    const auto start = time_of(event.get(), CL_PROFILING_COMMAND_START);
    const auto end = time_of(event.get(), CL_PROFILING_COMMAND_END);
    if (!queued || !start || !end || *end < *start) {
      ++untimed_;
      continue;
    }
    const Timed command{pending.op,         *queued, *start, *end, pending.enqueue_begin,
                        pending.enqueue_end};
    count(command);
    if (trace_ != nullptr) timed.push_back(command);
  }
  put_into_trace(timed);
}

void Profiler::count(const Timed& command) {
  Op& op = ops_[command.op];
  ++op.count;
  op.ns += command.end_ns - command.start_ns;
  if (!any_counted_) {
    first_start_ns_ = command.start_ns;
  } else if (command.start_ns > last_end_ns_) {
    const std::uint64_t ns = command.start_ns - last_end_ns_;
    Gap& gap = gaps_[{last_op_, command.op}];
    ++gap.count;
    gap.ns += ns;
    gap.longest_ns = std::max(gap.longest_ns, ns);
    op.gap_ns += ns;
  }
  any_counted_ = true;
  last_op_ = command.op;
  last_end_ns_ = std::max(last_end_ns_, command.end_ns);
}

// The device has a separate clock, which may drift. The time at which a command was queued is known
// on both clocks: exactly on the device's, and within the enqueue call on the host's. Of the
// commands read together, the one with the shortest enqueue call therefore sets the clock offset
// for all.
void Profiler::put_into_trace(const std::vector<Timed>& commands) {
  if (commands.empty()) return;
  const auto& sharpest = *std::ranges::min_element(
      commands, {}, [](const Timed& c) { return c.enqueue_end - c.enqueue_begin; });
  const auto host = sharpest.enqueue_begin + (sharpest.enqueue_end - sharpest.enqueue_begin) / 2;
  const auto at = [&](std::uint64_t device_ns) {
    const auto since = static_cast<std::int64_t>(device_ns - sharpest.queued_ns);
    return host +
           std::chrono::duration_cast<Trace::Clock::duration>(std::chrono::nanoseconds(since));
  };
  for (const Timed& command : commands) {
    // The queue is in order: a command that a new clock offset would make overlap its predecessor
    // starts after it.
    const auto begin = std::max(at(command.start_ns), traced_until_);
    const auto end = std::max(at(command.end_ns), begin);
    trace_->add(track_, ops_[command.op].kind, begin, end);
    traced_until_ = end;
  }
}

std::vector<OpTime> Profiler::times(ProfileBy by, const RooflinePeaks& peaks) {
  collect();
  std::map<std::pair<std::string_view, std::string_view>, OpTime> rows;
  for (const Op& op : ops_) {
    if (op.count == 0) continue;
    const std::string_view shape = by == ProfileBy::shape ? op.shape : std::string_view();
    OpTime& row = rows[{op.label, shape}];
    row.op = op.label;
    row.shape = shape;
    row.count += op.count;
    row.seconds += seconds(op.ns);
    row.gap_seconds += seconds(op.gap_ns);
    const auto times = static_cast<double>(op.count);
    row.cost.flops += times * op.cost.flops;
    row.cost.bytes += times * op.cost.bytes;
    if (peaks.known()) row.roofline_seconds += times * roofline_seconds(op.cost, peaks);
  }
  std::vector<OpTime> sorted;
  for (auto& [key, row] : rows) sorted.push_back(std::move(row));
  std::ranges::stable_sort(sorted, std::ranges::greater(), &OpTime::seconds);
  return sorted;
}

GapSummary Profiler::gaps() {
  collect();
  GapSummary summary;
  summary.wall_seconds = seconds(last_end_ns_ - first_start_ns_);
  std::map<std::pair<std::string_view, std::string_view>, GapTime> pairs;
  for (const auto& [ops, gap] : gaps_) {
    const std::string& after = ops_[ops.first].label;
    const std::string& before = ops_[ops.second].label;
    GapTime& pair = pairs[{after, before}];
    pair.after = after;
    pair.before = before;
    pair.count += gap.count;
    pair.seconds += seconds(gap.ns);
    pair.longest_seconds = std::max(pair.longest_seconds, seconds(gap.longest_ns));
    summary.count += gap.count;
    summary.seconds += seconds(gap.ns);
  }
  for (auto& [key, pair] : pairs) summary.pairs.push_back(std::move(pair));
  std::ranges::stable_sort(summary.pairs, std::ranges::greater(), &GapTime::seconds);
  return summary;
}

void Profiler::clear() {
  collect();
  for (Op& op : ops_) op.count = op.ns = op.gap_ns = 0;
  gaps_.clear();
  untimed_ = 0;
  any_counted_ = false;
  first_start_ns_ = last_end_ns_ = 0;
}

}  // namespace clora
