// One candidate of `clc tune`: built, run, compared with what is right, and only then timed.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tools/clc/comparison.hpp"
#include "tools/clc/kernel_call.hpp"
#include "tools/clc/kernel_timing.hpp"
#include "tools/clc/tune_record.hpp"

namespace clora {

// An array as every candidate must leave it.
struct ReferenceArray {
  std::string name;
  HostArray wanted;
  Tolerance tolerance;
};

// What an array of this content may be off by where nobody said it: floats by rounding in another
// order, 1e-4 of the largest value (f64 1e-10, 16 bits 2e-2); integers by nothing.
Tolerance usual_tolerance(const HostArray& wanted);

struct TrialPlan {
  TimingPlan timing;
  double drop_above = 1.5;  // of the best median so far: such a candidate is timed no further
};

// Runs a candidate through its trial. Errors: device_lost, and what is not the candidate's fault.
TrialResult try_candidate(Context& context, KernelCallSpec spec,
                          const std::vector<ReferenceArray>& references, const TrialPlan& plan,
                          std::optional<double> best_seconds);

// What is wrong in the arrays of a call that has run; empty: nothing.
std::string difference_in(KernelCall& call, const std::vector<ReferenceArray>& references);

}  // namespace clora
