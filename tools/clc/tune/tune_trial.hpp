// The trial of one candidate of `clc tune`: builds and runs it, checks its results, and then times
// it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tools/clc/bench/kernel_timing.hpp"
#include "tools/clc/call/comparison.hpp"
#include "tools/clc/call/kernel_call.hpp"
#include "tools/clc/tune/tune_record.hpp"

namespace clora {

// The contents that an array must have after the call.
struct ReferenceArray {
  std::string name;
  HostArray wanted;
  Tolerance tolerance;
};

// The default tolerance for an array: floats may differ by the rounding of another order of
// summation, 1e-4 of the largest absolute value (f64 1e-10, 16-bit types 2e-2); integers must be
// equal.
Tolerance usual_tolerance(const HostArray& wanted);

struct TrialPlan {
  TimingPlan timing;
  double drop_above = 1.5;  // a candidate above this multiple of the best median is dropped
};

// Runs the trial of a candidate. Errors: device_lost, and errors that the candidate did not cause.
TrialResult try_candidate(Context& context, KernelCallSpec spec,
                          const std::vector<ReferenceArray>& references, const TrialPlan& plan,
                          std::optional<double> best_seconds);

// The difference between the arrays of a call and their references; empty: none.
std::string difference_in(KernelCall& call, const std::vector<ReferenceArray>& references);

}  // namespace clora
