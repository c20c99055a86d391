#include "tools/clc/compile/budget_check.hpp"

#include <fmt/ranges.h>

#include <algorithm>

namespace clora {
namespace {

std::optional<std::size_t> figure_of(const KernelFigures& kernel, const std::string& name) {
  if (name == "registers") return kernel.registers;
  if (name == "spills") return kernel.spills;
  if (name == "local") return kernel.local_bytes;
  return kernel.private_bytes;
}

std::string amount(const std::string& name, std::size_t value, const Target& target) {
  if (name == "registers") return fmt::format("{} registers", value);
  if (name != "spills") return fmt::format("{} bytes of {} memory", value, name);
  const bool in_registers =
      target.maker == Target::Maker::amd || target.maker == Target::Maker::intel;
  return in_registers ? fmt::format("{} registers spilled", value)
                      : fmt::format("{} bytes of spills", value);
}

bool holds(const BudgetLimit& limit, std::size_t value) {
  const auto found = static_cast<double>(value);
  return limit.exact ? found == limit.value : found <= limit.value;
}

}  // namespace

std::vector<BudgetFinding> check_budgets(const std::vector<Budget>& budgets,
                                         const KernelFigures& kernel, const Target& target) {
  std::vector<BudgetFinding> findings;
  for (const Budget& budget : budgets) {
    if (!budget.kernel.empty() && budget.kernel != kernel.kernel) continue;
    if (!budget.target.empty() && budget.target != target.name) continue;
    for (const BudgetLimit& limit : budget.limits) {
      const std::string who = fmt::format("kernel {} on {}", kernel.kernel, target.name);
      const std::string wanted = fmt::format("{}{}", limit.exact ? "=" : "<=", limit.value);
      const auto found = figure_of(kernel, limit.name);
      if (!found) {
        findings.push_back({false, fmt::format("{}: its {} are unknown, the budget is {}", who,
                                               limit.name, wanted)});
      } else if (!holds(limit, *found)) {
        findings.push_back({true, fmt::format("{}: {}, the budget is {}", who,
                                              amount(limit.name, *found, target), wanted)});
      }
    }
  }
  return findings;
}

std::string wrong_budget_target(const std::vector<Budget>& budgets) {
  std::vector<std::string_view> names;
  for (const Target& target : all_targets()) names.push_back(target.name);
  for (const Budget& budget : budgets) {
    if (budget.target.empty() || std::ranges::find(names, budget.target) != names.end()) continue;
    return fmt::format("a budget names '{}', which is not a target; the targets are {}",
                       budget.target, fmt::join(names, ", "));
  }
  return {};
}

}  // namespace clora
