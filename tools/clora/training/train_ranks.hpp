// What each rank of `clora train` does with its device: rank 0 writes the folder and the report,
// the others compute with it. Threads: each rank has its own.
#pragma once

#include <functional>

#include "tools/clora/model_text.hpp"
#include "tools/clora/training/run_devices.hpp"
#include "tools/clora/training/run_evaluation.hpp"
#include "tools/clora/training/run_folder.hpp"
#include "tools/clora/training/train_options.hpp"
#include "tools/clora/training/training_data.hpp"
#include "tools/command_line/output.hpp"

namespace clora {

// What all ranks of a process read.
struct TrainInputs {
  const TrainingData& data;
  const ModelText& text;
  const RunEvaluation& evaluation;
};

// The options of a rank with its device.
TrainOptions options_on(const RunDevice& device, Communicator* ranks, TrainOptions options);

// Rank 0: writes the folder and the report. Errors: those of the training, after which an earlier
// run in the folder is there again if this one has saved nothing.
TrainingSummary lead(TrainOptions options, RunFolder& folder, const TrainInputs& inputs,
                     Output& output);
// Any other rank: computes and writes nothing. should_stop: for processes, which get signals.
void follow(TrainOptions options, const TrainInputs& inputs,
            const std::function<bool()>& should_stop);
// A rank in a process of its own: a signal stops all ranks after the step.
void follow_in_process(const TrainOptions& options, const TrainInputs& inputs);

// Searches a learning rate with the adapter and the data of the run, and throws the adapter away.
// Returns the exit code.
int search_rate(TrainOptions options, const TrainInputs& inputs, Output& output);

}  // namespace clora
