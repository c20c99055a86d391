// Charts of benches as inline SVG for the page of bench_page.hpp, whose style names their colours
// for light and dark. Pure functions; thread-safe.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tools/clora/bench_results.hpp"
#include "tools/clora/bench_verdict.hpp"

namespace clora {

// One bar a row: the share of the device's roofline where all rows have one, else the time beside
// the longest. A whisker shows the least and the largest repetition.
std::string rows_chart(std::span<const BenchRow> rows);

// A row twice, fused and unfused: what is gained by fusing.
struct FusedGain {
  std::string name;  // without the form
  double factor;     // time unfused / time fused
};
std::vector<FusedGain> fused_gains(const BenchResults& results);
std::string gains_chart(const std::vector<FusedGain>& gains);

// The ratio new / old of each row with its interval; those that a verdict falls on only.
std::string comparison_chart(const std::vector<Comparison>& comparisons);

}  // namespace clora
