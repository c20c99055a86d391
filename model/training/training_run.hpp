// A whole fine-tuning run: order of the data, schedule, evaluation, checkpoints, resumption.
//
// Reports through callbacks and never prints. A checkpoint holds the adapter, the moments, the
// step and the settings that decide the results, so that a resumed run's results are those of the
// unbroken one, bit for bit; a run whose settings differ is refused.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>

#include "lora/adapter.hpp"
#include "model/data/records.hpp"
#include "model/families/language_model.hpp"
#include "model/training/evaluator.hpp"
#include "model/training/resumption.hpp"
#include "model/training/trainer.hpp"
#include "model/training/training_config.hpp"

namespace clora {

struct TrainingCallbacks {
  // tokens_per_s: over the last steps (eight at most), evaluations and saving left out.
  std::function<void(const StepResult&, double tokens_per_s)> on_step;
  std::function<void(const EvalResult&)> on_eval;
  std::function<void(std::int64_t step, const std::filesystem::path&)> on_save;
  // Asked while memory is planned, before the first step and between steps.
  std::function<bool()> should_stop;
  // Called before the first step of a run that goes on from a checkpoint.
  std::function<void(const ResumePoint&)> on_resume = {};
};

struct TrainingSummary {
  std::int64_t steps = 0;
  double seconds = 0;
  bool stopped = false;   // by should_stop
  double final_loss = 0;  // of the last step; 0 where none was taken
};

// Runs the training. `valid` may be null. Saves the adapter to adapter_out at the end, and when
// stopped after a step; nothing is written before. resume_from: a checkpoint folder, or empty
// (then the adapter is taken as it is). Errors, before the first step: invalid_argument for
// settings that no run can have, and those of check_resume(); invalid_data, naming the record,
// where one of `train` or all of `valid` have no token that counts, and where the adapter is not
// finite. Later: diverged, naming the step, where a loss, a gradient or the adapter is not finite,
// or invalid_file, naming the weight that is not; what was saved last stays. io.
TrainingSummary run_training(LanguageModel& model, Adapter& adapter, const Records& train,
                             const Records* valid, const TrainingRunConfig& config,
                             const std::filesystem::path& resume_from,
                             const TrainingCallbacks& callbacks);

}  // namespace clora
