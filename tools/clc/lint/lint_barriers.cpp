// The rule barrier-in-divergent-flow of clc lint.
#include "tools/clc/lint/lint_divergence.hpp"
#include "tools/clc/lint/lint_rules.hpp"
#include "tools/clc/lint/lint_work_items.hpp"

namespace clora {

void find_barriers_in_divergent_flow(const LintInput& input, Report& report) {
  const Divergence divergence(input.tree());
  for (const LonelyBarrier& each : divergence.barriers()) {
    const SourceLocation cause = input.locations.of(each.cause->use);
    const std::string called(each.call->callee());
    report.at_use(*each.call,
                  (joins_items(called) ? called + "()" : "'" + called + "', which has a barrier,") +
                      " is not reached by all items of a work-group: the condition at " +
                      cause.file + ":" + std::to_string(cause.line) +
                      " differs between them; move it out of that condition");
  }
}

}  // namespace clora
