// A complete fine-tuning run: data order, schedule, evaluation, checkpoints, resumption.
//
// It reports through callbacks and never prints. A checkpoint holds the adapter, the optimizer's
// state, the step and the settings that determine the results, so a resumed run gives the same
// results, bit for bit, as an uninterrupted one; a run with different settings is refused.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>

#include "clora/lora/adapter.hpp"
#include "clora/model/data/records.hpp"
#include "clora/model/training/evaluator.hpp"
#include "clora/model/training/rank_shares.hpp"
#include "clora/model/training/resumption.hpp"
#include "clora/model/training/trainer.hpp"
#include "clora/model/training/training_config.hpp"
#include "clora/model/transformer/language_model.hpp"

namespace clora {

struct TrainingCallbacks {
  // tokens_per_s: over the last steps (at most eight), without evaluations and saving.
  std::function<void(const StepResult&, double tokens_per_s)> on_step;
  std::function<void(const EvalResult&)> on_eval;
  std::function<void(std::int64_t step, const std::filesystem::path&)> on_save;
  // Called while memory is planned, before the first step and between steps.
  std::function<bool()> should_stop;
  // Called before the first step of a run that resumes from a checkpoint.
  std::function<void(const ResumePoint&)> on_resume = {};
  // Called before the first step of a run with ranks.
  std::function<void(const DeviceShares&)> on_shares = {};
};

struct TrainingSummary {
  std::int64_t steps = 0;
  double seconds = 0;
  bool stopped = false;      // by should_stop
  double final_loss = 0;     // of the last step; 0 if there was none
  bool ended_early = false;  // after config.patience validations without an improvement
  // With early stopping: the step and the held-out loss of the best adapter, which is the one in
  // adapter_out; nullopt if the run was stopped before its first validation.
  std::optional<EvalResult> best = {};
  // Of a model that is split by layers: the part of the time of all steps but the first in which
  // each rank's device waited for a neighbour; else empty.
  std::vector<double> idle_shares = {};
};

TrainerConfig trainer_config(const TrainingRunConfig& config);

// The row counts of the largest step of a run from step `begin` on (from 0), which determines its
// memory; no rows if should_stop() ended the search. Errors: those of order_of() and total_steps().
WantedRows largest_step(const ModelConfig& model, const Records& train,
                        const TrainingRunConfig& config, std::int64_t begin = 0,
                        const std::function<bool()>& should_stop = {});

// With config.ranks, every rank calls this with the same arguments but for model, adapter and
// callbacks; only rank 0 writes files. Evaluations are split like micro-batches. should_stop of any
// rank stops all.
// Runs the training. `valid` may be null. With a preference loss the adapter must be the one that
// the run began with, also to resume: the reference is the model with it. Saves the adapter to
// adapter_out at the end, and when stopped after a step; nothing is written before. With early
// stopping (config.patience) that is the adapter of the lowest held-out loss. The average of the
// adapter, if there is one, is saved to adapter_out/ema. resume_from: a checkpoint folder, or empty
// to start from the given adapter. Errors before the first step: invalid_argument for settings out
// of range, and those of check_resume(); invalid_data, naming the record, if a record of `train`
// has no labelled token or no record of `valid` has one, if the adapter is not finite, and for
// early stopping without records that have a held-out loss. Later errors: io; diverged, naming the
// step, if a loss, a gradient or the adapter is not finite, or invalid_file, naming the weight, if
// a weight is not. The files that were saved last are kept.
TrainingSummary run_training(LanguageModel& model, Adapter& adapter, const Records& train,
                             const Records* valid, const TrainingRunConfig& config,
                             const std::filesystem::path& resume_from,
                             const TrainingCallbacks& callbacks);

}  // namespace clora
