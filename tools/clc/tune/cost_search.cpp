#include "tools/clc/tune/cost_search.hpp"

#include <algorithm>

#include "ops/tuned/tuned.hpp"

namespace clora {
namespace {

constexpr double kFactors[] = {0.25, 0.5, 0.71, 1.41, 2, 4};
constexpr int kMaxRounds = 3;
// A smaller gain may be one of the measurement.
constexpr double kMinGain = 0.005;

}  // namespace

CostSearchResult search_costs(const NamedCosts& start, const CostTrial& trial) {
  CostSearchResult result{.best = start, .first = trial(start), .last = {}, .without_effect = {}};
  result.last = result.first;
  for (const auto& [name, cost] : start) result.without_effect.push_back(name);
  bool gains = true;
  for (int round = 0; round < kMaxRounds && gains; ++round) {
    gains = false;
    for (const auto& [name, at_start] : start) {
      const double before = result.best.at(name);
      for (const double factor : kFactors) {
        NamedCosts costs = result.best;
        costs[name] = std::min(before * factor, kMaxCost);
        const CostOutcome outcome = trial(costs);
        if (outcome.plans != result.last.plans) std::erase(result.without_effect, name);
        if (outcome.seconds >= (1 - kMinGain) * result.last.seconds) continue;
        result.best = std::move(costs);
        result.last = outcome;
        gains = true;
      }
    }
  }
  return result;
}

}  // namespace clora
