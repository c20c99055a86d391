// The bench results as one self-contained HTML page: no scripts, no external links, nothing to
// download. The page follows the reader's light or dark mode. Pure functions; thread-safe.
#pragma once

#include <string>
#include <vector>

#include "tools/clora/bench/bench_results.hpp"
#include "tools/clora/bench/bench_verdict.hpp"

namespace clora {

struct BenchPage {
  const BenchResults& results;
  const std::vector<Comparison>& comparisons;     // empty: no comparison
  const std::vector<std::string>& machine_notes;  // machine_change()
};

std::string bench_page(const BenchPage& page);

}  // namespace clora
