// Bench results as inline SVG charts for the page of bench_page.hpp, whose style sheet defines
// their colours in light and dark mode. Pure functions; thread-safe.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tools/clora/bench/bench_results.hpp"
#include "tools/clora/bench/bench_verdict.hpp"

namespace clora {

// One bar per row: the percentage of the roofline if every row has one, otherwise the time relative
// to the longest. A whisker spans the fastest to the slowest repetition.
std::string rows_chart(std::span<const BenchRow> rows);

// The speedup of a fused op over its unfused reference.
struct FusedGain {
  std::string name;  // without the form
  double factor;     // time unfused / time fused
};
std::vector<FusedGain> fused_gains(const BenchResults& results);
std::string gains_chart(const std::vector<FusedGain>& gains);

// The ratio new / old with its interval, for the rows that have a verdict.
std::string comparison_chart(const std::vector<Comparison>& comparisons);

}  // namespace clora
