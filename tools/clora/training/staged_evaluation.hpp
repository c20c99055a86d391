// The loss of records by a model whose blocks are divided over the devices of a run.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "clora/model/data/records.hpp"
#include "clora/model/training/evaluator.hpp"
#include "tools/clora/commands/common_options.hpp"
#include "tools/clora/training/run_devices.hpp"
#include "tools/clora/training/split_options.hpp"
#include "tools/command_line/output.hpp"

namespace clora {

struct StagedEvaluation {
  CommonOptions common;
  SplitOptions split;  // by layers
  std::vector<std::int64_t> device_shares;
  std::string adapter;  // a folder, or empty
  std::int64_t context_length = 0;
};

// Loads the parts of the model on the devices of this process, and returns the result of all.
// Profiles are those of rank 0. Errors: those of LoadedModel and Evaluator.
EvalResult evaluate_on_stages(RunDevices& devices, const StagedEvaluation& how,
                              const Records& records, Output& output);

}  // namespace clora
