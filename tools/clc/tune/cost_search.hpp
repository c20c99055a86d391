// The search of `clc tune --costs` for the costs of a model (ops/tuned/costs.hpp): one cost after
// the other is changed by a factor, and the change is kept if the plans that follow from it are
// faster. Pure; thread-safe.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ops/tuned/tuned_table.hpp"

namespace clora {

// What costs lead to: the plans of all problems, as a text that is equal if they are, and the
// geometric mean of their times.
struct CostOutcome {
  std::string plans;
  double seconds = 0;
};
using CostTrial = std::function<CostOutcome(const NamedCosts&)>;

struct CostSearchResult {
  NamedCosts best;
  CostOutcome first, last;                  // of the start, and of the best
  std::vector<std::string> without_effect;  // no tried value of these costs changed a plan
};

// A cost of 0 is left as it is. `trial` must give the same time for the same plans.
CostSearchResult search_costs(const NamedCosts& start, const CostTrial& trial);

}  // namespace clora
