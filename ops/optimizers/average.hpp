// average: the exponential moving average of parameters (Polyak and Juditsky, 1992):
//   average = decay average + (1 - decay) parameters
#pragma once

#include "clora/runtime/commands/batch.hpp"

namespace clora {

// Updates average, f32 [n], by parameters, f32 [n]. REQUIRES: they do not overlap; 0 <= decay < 1.
void record_average(Batch& batch, const Tensor& average, const Tensor& parameters, double decay);

Cost average_cost(std::int64_t parameters);

}  // namespace clora
