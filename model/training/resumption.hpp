// Resuming a training run from a checkpoint: whether it is the same run, and where it continues.
#pragma once

#include <cstdint>
#include <filesystem>

#include "clora/model/training/checkpoint.hpp"
#include "clora/model/training/training_config.hpp"

namespace clora {

// Returns what identifies a run: data, model, adapter and settings, among them the total_steps() of
// the run.
Fingerprint fingerprint_of_run(const LanguageModel& model, const Adapter& adapter,
                               const Records& train, const TrainingRunConfig& config);

// Returns what the next steps of a Trainer depend on besides its state, the data and the learning
// rates: model, adapter and settings. For checkpoints of programs that run their own steps.
Fingerprint fingerprint_of_trainer(const LanguageModel& model, const Adapter& adapter,
                                   const TrainerConfig& config);

struct ResumePoint {
  std::int64_t step = 0;         // of the checkpoint
  std::int64_t steps_then = 0;   // length of the run when the checkpoint was written
  std::int64_t steps_now = 0;    // its length now
  std::filesystem::path folder;  // of the checkpoint
  bool changes_length() const { return steps_then != steps_now; }
};

// Returns where a run with this fingerprint continues from the checkpoint. The number of steps may
// differ if the steps up to the checkpoint have the same learning rates either way: the run is
// extended, or shortened to no less than the checkpoint's step.
// Errors: invalid_argument, with each setting that differs, or the reason why the number of steps
// cannot change; invalid_file for a step that the run cannot have reached.
ResumePoint resume_point(const Checkpoint& checkpoint, const Fingerprint& fingerprint,
                         const TrainingRunConfig& config);

// The same from a folder, before a run begins: reads everything and changes nothing. Errors: also
// those of read_checkpoint().
ResumePoint check_resume(const std::filesystem::path& folder, const LanguageModel& model,
                         const Adapter& adapter, const Records& train,
                         const TrainingRunConfig& config);

}  // namespace clora
