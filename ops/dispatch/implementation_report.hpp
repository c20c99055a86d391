// Which implementation each op family takes on a Context for typical problems, and why those before
// it in its list are not taken.
#pragma once

#include <string>
#include <vector>

#include "clora/runtime/context.hpp"
#include "ops/dispatch/implementation_choice.hpp"

namespace clora {

struct ReportedChoice {
  std::string family;
  std::string problem;  // "512 rows"; empty if the family has one typical problem
  std::vector<ConsideredImplementation> considered;  // the last one was taken, unless there is an
  std::string error;                                 // error, which the op threw
};

// Records each op once, on tensors of some 10 MiB, and runs none of them, except that self-tests
// without a stored outcome run. One entry per typical problem, in the order of op_families().
std::vector<ReportedChoice> implementation_report(Context& context);

}  // namespace clora
