// The implementations of delta_rule and of its backward, and the choice among them
// (ops/dispatch/implementation.hpp).
#pragma once

#include "ops/dispatch/implementation.hpp"
#include "ops/recurrent/delta_rule_calls.hpp"

namespace clora {

template <class Call>
struct DeltaRuleImplementationOf {
  std::string_view name;
  std::string_view file;
  const char* (*unavailable)(const Context&);
  const char* (*refusal)(const Context&, const Call&);
  bool (*passed)(Context&, const Call&);
  void (*record)(Batch&, const Call&);
};
using DeltaRuleImplementation = DeltaRuleImplementationOf<DeltaRuleForward>;
using DeltaRuleBackwardImplementation = DeltaRuleImplementationOf<DeltaRuleBackward>;

// The last one of each supports every call.
const DeltaRuleImplementation& choose_delta_rule(Context& context, const DeltaRuleForward& forward);
const DeltaRuleBackwardImplementation& choose_delta_rule_backward(
    Context& context, const DeltaRuleBackward& backward);

}  // namespace clora
