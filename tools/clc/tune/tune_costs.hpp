// clc tune --costs: measures the costs by which ops plan launches on a device, and writes those
// that gain to the tuned table.
#pragma once

#include "tools/clc/tune/tune_options.hpp"

namespace clora {

// Returns the exit code. Errors: UsageError if no model is called options.costs.
int tune_costs(const TuneOptions& options);

}  // namespace clora
