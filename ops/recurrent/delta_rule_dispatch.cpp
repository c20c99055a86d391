#include "ops/recurrent/delta_rule_dispatch.hpp"

#include "ops/dispatch/requirements.hpp"
#include "ops/recurrent/delta_rule_matrix.hpp"
#include "ops/recurrent/delta_rule_portable.hpp"

namespace clora {
namespace {

constexpr DeltaRuleImplementation kForward[] = {
    {"matrix", kDeltaRuleMatrix, needs_any_matrix_unit, delta_rule_matrix_refusal,
     delta_rule_matrix_passed, record_delta_rule_matrix},
    {"portable", kDeltaRulePortable, needs_nothing, refuses_nothing, needs_no_test,
     record_delta_rule_portable},
};
constexpr ImplementationList<DeltaRuleImplementation> kForwardList{"delta_rule", kForward};

constexpr DeltaRuleBackwardImplementation kBackward[] = {
    {"matrix", kDeltaRuleBackwardMatrix, needs_any_matrix_unit, delta_rule_backward_matrix_refusal,
     delta_rule_backward_matrix_passed, record_delta_rule_backward_matrix},
    {"portable", kDeltaRuleBackwardPortable, needs_nothing, refuses_nothing, needs_no_test,
     record_delta_rule_backward_portable},
};
constexpr ImplementationList<DeltaRuleBackwardImplementation> kBackwardList{"delta_rule_backward",
                                                                            kBackward};

}  // namespace

const DeltaRuleImplementation& choose_delta_rule(Context& context,
                                                 const DeltaRuleForward& forward) {
  return choose_implementation(context, kForwardList, forward);
}
const DeltaRuleBackwardImplementation& choose_delta_rule_backward(
    Context& context, const DeltaRuleBackward& backward) {
  return choose_implementation(context, kBackwardList, backward);
}

}  // namespace clora
