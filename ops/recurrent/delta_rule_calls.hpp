// The checked arguments of one call of delta_rule, as its implementations take them.
#pragma once

#include "clora/ops/recurrent/delta_rule.hpp"

namespace clora {

// state: that of record_delta_rule_cached(), or empty.
struct DeltaRuleForward {
  Tensor y;
  DeltaRuleInputs in;
  Tensor state;
};

struct DeltaRuleBackward {
  DeltaRuleGradients out;
  Tensor dy;
  DeltaRuleInputs in;
};

}  // namespace clora
