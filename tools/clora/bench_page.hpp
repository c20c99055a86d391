// The results of benches as one HTML page: no script, no link out of it, nothing to fetch; read in
// light and dark as the reader's system says. Pure functions; thread-safe.
#pragma once

#include <string>
#include <vector>

#include "tools/clora/bench_results.hpp"
#include "tools/clora/bench_verdict.hpp"

namespace clora {

struct BenchPage {
  const BenchResults& results;
  const std::vector<Comparison>& comparisons;     // empty: nothing is compared
  const std::vector<std::string>& machine_notes;  // machine_change()
};

std::string bench_page(const BenchPage& page);

}  // namespace clora
