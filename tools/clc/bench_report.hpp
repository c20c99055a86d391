// What `clc bench` has measured, in figures for people and programs. Values and pure functions;
// thread-safe.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "runtime/roofline.hpp"
#include "tools/clc/kernel_timing.hpp"
#include "tools/clc/roofline_picture.hpp"
#include "tools/clc/sample_statistics.hpp"

namespace clora {

// The peaks that a kernel is compared with.
struct BenchPeaks {
  double bytes_per_second = 0;
  double flops_per_second = 0;
  std::string arithmetic;  // "f32" or "matrix"
};

// One kernel with one state of the caches.
struct BenchRow {
  CacheState caches = CacheState::warm;
  bool old = false;  // the kernel that is compared with
  SampleSummary seconds;
  Cost cost;  // of one launch

  // By the median; infinite where that is 0, since the clock is too coarse.
  double bytes_per_second() const { return cost.bytes / seconds.median; }
  double flops_per_second() const { return cost.flops / seconds.median; }
  std::string name() const;  // "cold, old"
};

// Which peak a launch of `cost` reaches first.
enum class LimitedBy { nothing, memory, arithmetic };  // nothing: no bytes and no flops are known
LimitedBy limit_of(const Cost& cost, const BenchPeaks& peaks);
std::string_view name_of(LimitedBy limit);
// Of that peak; above 100 where data came from caches, 0 where nothing limits.
double percent_of_roofline(const BenchRow& row, const BenchPeaks& peaks);

// The new kernel against the old one.
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
// Lines, the first the names of the columns.
std::string bench_table(const std::vector<BenchRow>& rows, const BenchPeaks& peaks);
// Figures that are not finite are null.
nlohmann::ordered_json bench_json(const BenchRow& row, const BenchPeaks& peaks);
nlohmann::ordered_json bench_json(const BenchVerdict& verdict);
std::vector<RooflinePoint> roofline_points(const std::vector<BenchRow>& rows,
                                           const BenchPeaks& peaks);

}  // namespace clora
