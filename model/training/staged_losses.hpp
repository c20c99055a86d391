// The losses of packed rows by a model that is split by layers, one stage a rank.
#pragma once

#include <span>
#include <vector>

#include "clora/model/training/communicator.hpp"
#include "clora/model/training/recorded_step.hpp"

namespace clora {

// Returns the loss of each element of `rows`, summed over its labelled tokens, on every rank. While
// a stage computes one, the next stage computes the one before. Collective; waits for the device.
// steps: of evaluation. loss: StepResults::loss_sum of these, overwritten.
std::vector<double> staged_loss_sums(const LanguageModel& model, RecordedSteps& steps,
                                     const Tensor& loss, std::span<const PackedRows> rows,
                                     Communicator& ranks);

}  // namespace clora
