// Costs: the numbers by which an op compares the plans of a launch, such as the time of a tile.
// They were measured on a device, so they are in the tuned tables and not in the code.
//
// A model is a struct of doubles, named as in the tables, with
//   static constexpr std::string_view kModel = "gemm_wgmma";
//   static void each(auto& costs, auto f);   // calls f(name, number) for each of its numbers
// A Context has the costs of its device in the user's table, or else in the project's, or else
// those that the project's table has for other devices. Any numbers from 0 to kMaxCost give plans
// that compute the product. Costs change speed only, but for the order of sums and, on devices that
// round products, the number of rows from which they do (GemmSkinnyCosts::rows_matrix). Threads:
// those of the Context.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "clora/runtime/context.hpp"
#include "ops/dispatch/ops_state.hpp"
#include "ops/tuned/tuned.hpp"

namespace clora {

template <class Costs>
NamedCosts named(const Costs& costs) {
  NamedCosts values;
  Costs::each(costs, [&](std::string name, double value) { values[std::move(name)] = value; });
  return values;
}

// REQUIRES: `values` has all names of the model.
template <class Costs>
Costs costs_from(const NamedCosts& values) {
  Costs costs;
  Costs::each(costs, [&](const std::string& name, double& value) { value = values.at(name); });
  return costs;
}

// Those of the project's table for devices without an entry.
template <class Costs>
Costs costs_for_other_devices() {
  return costs_from<Costs>(project_tuned_table().costs_for_other_devices(Costs::kModel)->values);
}

// The costs of a model that a Context keeps.
template <class Costs>
struct KeptCosts {
  std::optional<Costs> costs;
};

// Read from the tables at the first call. The reference is valid as long as the Context.
template <class Costs>
const Costs& costs_of(const Context& context) {
  std::optional<Costs>& kept = ops_state<KeptCosts<Costs>>(context).costs;
  if (!kept) {
    std::vector<std::string> names;
    for (const auto& [name, value] : named(Costs{})) names.push_back(name);
    kept = costs_from<Costs>(tuned_costs(context, Costs::kModel, names));
  }
  return *kept;
}

// Replaces them on this Context, to measure what they lead to.
template <class Costs>
void set_costs(const Context& context, const Costs& costs) {
  ops_state<KeptCosts<Costs>>(context).costs = costs;
}

}  // namespace clora
