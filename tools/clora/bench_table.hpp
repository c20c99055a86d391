// The results of benches as a table for a terminal, with a little bar for the share of the device's
// roofline. Pure functions; thread-safe.
#pragma once

#include <string>
#include <vector>

#include "tools/clora/bench_results.hpp"
#include "tools/clora/bench_verdict.hpp"

namespace clora {

// A bar of `cells` columns in eighths of a block, full from 100 % on.
std::string bar(double percent, int cells);

// What was measured on: device, commit, peaks. Lines.
std::string bench_machine_text(const BenchResults& results);

// Rows under the name of their op. Of verdicts only those in `comparisons`, which may be empty.
std::string bench_table(const BenchResults& results, const std::vector<Comparison>& comparisons);

}  // namespace clora
