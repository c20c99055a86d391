// Histogram: counts of observations in buckets, as a metric of Prometheus's text format 0.0.4.
// Threads: one at a time.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace clora {

class Histogram {
 public:
  // The inclusive upper bounds of the buckets, ascending; a last one without a bound is added. The
  // bounds must outlive it.
  explicit Histogram(std::span<const double> bounds);

  void observe(double value, std::uint64_t times = 1);

  // The lines NAME_bucket{LABELS,le="..."}, NAME_sum and NAME_count. labels: `model="x"`.
  std::string text(std::string_view name, std::string_view labels) const;

 private:
  std::span<const double> bounds_;
  std::vector<std::uint64_t> counts_;  // of each bucket alone
  double sum_ = 0;
};

}  // namespace clora
