// The measurements of `clc bench` as text and JSON. Value types and pure functions; thread-safe.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "clora/runtime/profiling/roofline.hpp"
#include "tools/clc/bench/kernel_timing.hpp"
#include "tools/clc/bench/roofline_picture.hpp"
#include "tools/clc/bench/sample_statistics.hpp"

namespace clora {

// The roofline peaks that a kernel is compared with.
struct BenchPeaks {
  double bytes_per_second = 0;
  double flops_per_second = 0;
  std::string arithmetic;  // "f32" or "matrix"
};

// One kernel with one cache state.
struct MeasuredKernel {
  CacheState caches = CacheState::warm;
  bool old = false;  // the baseline kernel
  SampleSummary seconds;
  Cost cost;  // per launch

  // From the median time; infinite if the median is 0 because the clock is too coarse.
  double bytes_per_second() const { return cost.bytes / seconds.median; }
  double flops_per_second() const { return cost.flops / seconds.median; }
  std::string name() const;  // "cold, old"
};

// The peak that limits a launch of `cost`.
enum class LimitedBy { nothing, memory, arithmetic };  // nothing: bytes and flops are unknown
LimitedBy limit_of(const Cost& cost, const BenchPeaks& peaks);
std::string_view name_of(LimitedBy limit);
// The percentage of the limiting peak; above 100 if data came from caches, 0 without a limit.
double percent_of_roofline(const MeasuredKernel& row, const BenchPeaks& peaks);

// The new kernel compared with the baseline.
struct BenchVerdict {
  CacheState caches = CacheState::warm;
  MedianRatio ratio;
  SpeedVerdict verdict = SpeedVerdict::no_difference;

  // "warm: 0.613 of the old time (95 %: 0.609 to 0.618): faster"
  std::string text() const;
};

std::string_view name_of(CacheState caches);
// "12.35 us"
std::string time_text(double seconds);
// A table, one line per row; the first line is the header.
std::string bench_table(const std::vector<MeasuredKernel>& rows, const BenchPeaks& peaks);
// Non-finite figures are null.
nlohmann::ordered_json bench_json(const MeasuredKernel& row, const BenchPeaks& peaks);
nlohmann::ordered_json bench_json(const BenchVerdict& verdict);
std::vector<RooflinePoint> roofline_points(const std::vector<MeasuredKernel>& rows,
                                           const BenchPeaks& peaks);

}  // namespace clora
