// The bench results as a table for a terminal, with a small bar for the percentage of the roofline.
// Pure functions; thread-safe.
#pragma once

#include <string>
#include <vector>

#include "tools/clora/bench/bench_results.hpp"
#include "tools/clora/bench/bench_verdict.hpp"

namespace clora {

// A bar of `cells` columns, drawn in eighths of a block and full at 100 %.
std::string bar(double percent, int cells);

// The device, commit and peaks of the run, one per line.
std::string bench_machine_text(const BenchResults& results);

// Rows grouped by op. Shows a verdict for the rows in `comparisons`, which may be empty.
std::string bench_table(const BenchResults& results, const std::vector<Comparison>& comparisons);

}  // namespace clora
