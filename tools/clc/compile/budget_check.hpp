// Checks the budgets of a file's head (file_head.hpp) against the figures of its kernels. Pure
// functions; thread-safe.
#pragma once

#include <string>
#include <vector>

#include "tools/clc/compile/kernel_figures.hpp"
#include "tools/clc/compile/target.hpp"
#include "tools/clc/kernel_file/file_head.hpp"

namespace clora {

struct BudgetFinding {
  bool missed = false;  // false: the figure is unknown
  std::string text;     // "kernel gemm on gfx90a: 140 registers, the budget is <=128"
};

std::vector<BudgetFinding> check_budgets(const std::vector<Budget>& budgets,
                                         const KernelFigures& kernel, const Target& target);

// An error for a budget on an unknown target: "a budget is on 'gfx91', which is no target; ...".
// Empty if all targets are valid.
std::string wrong_budget_target(const std::vector<Budget>& budgets);

}  // namespace clora
