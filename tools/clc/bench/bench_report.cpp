#include "tools/clc/bench/bench_report.hpp"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "tools/clc/text_table.hpp"

namespace clora {
namespace {

double memory_seconds(const Cost& cost, const BenchPeaks& peaks) {
  return cost.bytes / peaks.bytes_per_second;
}
double arithmetic_seconds(const Cost& cost, const BenchPeaks& peaks) {
  return cost.flops / peaks.flops_per_second;
}

// "12.3", or "-" if unknown.
std::string rate_text(double per_second) {
  return std::isfinite(per_second) && per_second > 0 ? fmt::format("{:.3g}", per_second / 1e9)
                                                     : "-";
}

std::vector<std::string> cells_of(const MeasuredKernel& row, const BenchPeaks& peaks) {
  const SampleSummary& s = row.seconds;
  const double percent = percent_of_roofline(row, peaks);
  const LimitedBy limit = limit_of(row.cost, peaks);
  return {row.name(),
          time_text(s.median),
          fmt::format("{} to {}", time_text(s.lower_quartile), time_text(s.upper_quartile)),
          fmt::format("{} to {}", time_text(s.least), time_text(s.greatest)),
          std::to_string(s.count),
          rate_text(row.bytes_per_second()),
          rate_text(row.flops_per_second()),
          limit == LimitedBy::nothing || !std::isfinite(percent)
              ? "-"
              : fmt::format("{:.3g} % of {}", percent, name_of(limit))};
}

nlohmann::ordered_json finite(double value) {
  return std::isfinite(value) ? nlohmann::ordered_json(value) : nlohmann::ordered_json(nullptr);
}

}  // namespace

std::string MeasuredKernel::name() const {
  return fmt::format("{}{}", name_of(caches), old ? ", old" : "");
}

LimitedBy limit_of(const Cost& cost, const BenchPeaks& peaks) {
  if (cost.bytes <= 0 && cost.flops <= 0) return LimitedBy::nothing;
  return memory_seconds(cost, peaks) >= arithmetic_seconds(cost, peaks) ? LimitedBy::memory
                                                                        : LimitedBy::arithmetic;
}

std::string_view name_of(LimitedBy limit) {
  switch (limit) {
    case LimitedBy::memory:
      return "memory";
    case LimitedBy::arithmetic:
      return "arithmetic";
    case LimitedBy::nothing:
      break;
  }
  return "nothing";
}

double percent_of_roofline(const MeasuredKernel& row, const BenchPeaks& peaks) {
  if (limit_of(row.cost, peaks) == LimitedBy::nothing) return 0;
  const double best =
      std::max(memory_seconds(row.cost, peaks), arithmetic_seconds(row.cost, peaks));
  return 100 * best / row.seconds.median;
}

std::string BenchVerdict::text() const {
  return fmt::format("{}: {:.3f} of the old time (95 %: {:.3f} to {:.3f}): {}", name_of(caches),
                     ratio.ratio, ratio.low, ratio.high, name_of(verdict));
}

std::string_view name_of(CacheState caches) { return caches == CacheState::warm ? "warm" : "cold"; }

std::string time_text(double seconds) {
  if (seconds >= 1) return fmt::format("{:.4g} s", seconds);
  if (seconds >= 1e-3) return fmt::format("{:.4g} ms", seconds * 1e3);
  return fmt::format("{:.4g} us", seconds * 1e6);
}

std::string bench_table(const std::vector<MeasuredKernel>& rows, const BenchPeaks& peaks) {
  std::vector<std::vector<std::string>> table{{"caches", "median", "quartiles", "min to max",
                                               "launches", "GB/s", "GFLOP/s", "of the roofline"}};
  for (const MeasuredKernel& row : rows) table.push_back(cells_of(row, peaks));
  return table_of(table, 2);
}

nlohmann::ordered_json bench_json(const MeasuredKernel& row, const BenchPeaks& peaks) {
  const SampleSummary& s = row.seconds;
  const bool flops_known = row.cost.flops > 0;
  return {{"caches", name_of(row.caches)},
          {"kernel", row.old ? "old" : "new"},
          {"launches", s.count},
          {"median_seconds", s.median},
          {"lower_quartile_seconds", s.lower_quartile},
          {"upper_quartile_seconds", s.upper_quartile},
          {"least_seconds", s.least},
          {"greatest_seconds", s.greatest},
          {"gb_per_s", finite(row.bytes_per_second() / 1e9)},
          {"gflop_per_s", flops_known ? finite(row.flops_per_second() / 1e9) : nullptr},
          {"percent_of_roofline", finite(percent_of_roofline(row, peaks))},
          {"limited_by", name_of(limit_of(row.cost, peaks))}};
}

nlohmann::ordered_json bench_json(const BenchVerdict& verdict) {
  return {{"caches", name_of(verdict.caches)},
          {"ratio", finite(verdict.ratio.ratio)},
          {"low", finite(verdict.ratio.low)},
          {"high", finite(verdict.ratio.high)},
          {"verdict", name_of(verdict.verdict)}};
}

std::vector<RooflinePoint> roofline_points(const std::vector<MeasuredKernel>& rows,
                                           const BenchPeaks& peaks) {
  std::vector<RooflinePoint> points;
  for (const MeasuredKernel& row : rows) {
    points.push_back(
        {.name = fmt::format("{}: {}, {} GFLOP/s, {} GB/s, {:.3g} % of the {} peak", row.name(),
                             time_text(row.seconds.median), rate_text(row.flops_per_second()),
                             rate_text(row.bytes_per_second()), percent_of_roofline(row, peaks),
                             name_of(limit_of(row.cost, peaks))),
         .flops_per_byte = row.cost.flops / row.cost.bytes,
         .flops_per_second = row.flops_per_second(),
         .cold = row.caches == CacheState::cold,
         .old = row.old});
  }
  return points;
}

}  // namespace clora
