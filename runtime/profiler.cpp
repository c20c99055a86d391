#include "runtime/profiler.hpp"

#include <algorithm>

#include "runtime/opencl.hpp"

namespace clora {
namespace {

constexpr std::size_t kMostPending = 4096;

double seconds_of(cl_event event) {
  check_opencl(clWaitForEvents(1, &event), "profiler: clWaitForEvents");
  cl_ulong start_ns = 0;
  cl_ulong end_ns = 0;
  check_opencl(clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_START, sizeof start_ns,
                                       &start_ns, nullptr),
               "profiler: clGetEventProfilingInfo");
  check_opencl(
      clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_END, sizeof end_ns, &end_ns, nullptr),
      "profiler: clGetEventProfilingInfo");
  return static_cast<double>(end_ns - start_ns) * 1e-9;
}

}  // namespace

Profiler::~Profiler() {
  for (const Pending& pending : pending_) clReleaseEvent(pending.event);
}

void Profiler::add(const std::string& label, Cost cost, cl_event event) {
  const auto entry = times_.try_emplace(label).first;
  OpTime& time = entry->second;
  ++time.count;
  time.cost.flops += cost.flops;
  time.cost.bytes += cost.bytes;
  pending_.push_back({&entry->first, event});
  if (pending_.size() >= kMostPending) collect();
}

void Profiler::collect() {
  for (const Pending& pending : pending_) {
    times_[*pending.label].seconds += seconds_of(pending.event);
  }
  for (const Pending& pending : pending_) clReleaseEvent(pending.event);
  pending_.clear();
}

const std::map<std::string, OpTime>& Profiler::by_op() {
  collect();
  return times_;
}

std::string Profiler::table() {
  std::vector<std::pair<std::string, OpTime>> rows(by_op().begin(), by_op().end());
  std::ranges::sort(
      rows, [](const auto& a, const auto& b) { return a.second.seconds > b.second.seconds; });
  double total = 0;
  for (const auto& [label, time] : rows) total += time.seconds;
  std::string text = fmt::format("{:<44} {:>8} {:>11} {:>11} {:>6} {:>8} {:>9}\n", "op", "count",
                                 "total ms", "mean us", "share", "GB/s", "GFLOP/s");
  for (const auto& [label, time] : rows) {
    const double s = std::max(time.seconds, 1e-12);
    text += fmt::format("{:<44} {:>8} {:>11.2f} {:>11.1f} {:>5.1f}% {:>8.1f} {:>9.1f}\n", label,
                        time.count, time.seconds * 1e3,
                        time.seconds * 1e6 / static_cast<double>(time.count),
                        100 * time.seconds / std::max(total, 1e-12), time.cost.bytes / s * 1e-9,
                        time.cost.flops / s * 1e-9);
  }
  return text;
}

void Profiler::clear() {
  collect();
  times_.clear();
}

}  // namespace clora
