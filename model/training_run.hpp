// A whole fine-tuning run: order of the data, schedule, evaluation, checkpoints, resumption.
//
// Reports through callbacks and never prints. A checkpoint holds the adapter, the moments, the
// step, the place in the data and the seed, so that a resumed run's results are those of the
// unbroken one, bit for bit.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>

#include "lora/adapter.hpp"
#include "model/evaluator.hpp"
#include "model/language_model.hpp"
#include "model/records.hpp"
#include "model/trainer.hpp"

namespace clora {

enum class Schedule { constant, linear, cosine };

struct TrainingRunConfig {
  std::int64_t batch_size = 4;  // records a micro-batch
  std::int64_t grad_accumulation = 1;
  std::int64_t steps = 0;  // optimiser steps; 0: epochs decide
  double epochs = 1;
  double learning_rate = 2e-4;
  Schedule schedule = Schedule::constant;
  std::int64_t warmup_steps = 0;  // linear from 0
  double weight_decay = 0;
  double clip_norm = 0;
  bool shuffle = true;
  std::uint64_t seed = 0;
  std::int64_t eval_every = 0;        // steps; 0: at the end only, where there is a valid set
  std::int64_t save_every = 0;        // steps; 0: at the end only
  std::filesystem::path adapter_out;  // checkpoints go to adapter_out/checkpoint-STEP
};

struct TrainingCallbacks {
  // tokens_per_s: over the last steps (eight at most), evaluations and saving left out.
  std::function<void(const StepResult&, double tokens_per_s)> on_step;
  std::function<void(const EvalResult&)> on_eval;
  std::function<void(std::int64_t step, const std::filesystem::path&)> on_save;
  std::function<bool()> should_stop;  // asked between steps
};

struct TrainingSummary {
  std::int64_t steps = 0;
  double seconds = 0;
  bool stopped = false;  // by should_stop
  double final_loss = 0;
};

// Learning rate of optimiser step `step` (from 1) of `total`: warm-up from 0, then constant, or
// down towards 0 in a line or by half a cosine.
double learning_rate_at(const TrainingRunConfig& config, std::int64_t step, std::int64_t total);

// Optimiser steps that the run will take on so many records.
std::int64_t total_steps(const TrainingRunConfig& config, std::size_t records);

// Runs the training. `valid` may be null. Saves the adapter to adapter_out at the end, and when
// stopped. resume_from: a checkpoint folder, or empty (then the adapter is taken as it is).
// Errors: diverged, naming the step, when a loss is not finite (what was saved last stays); io;
// invalid_file for a damaged checkpoint, invalid_argument for one of another run's settings.
TrainingSummary run_training(LanguageModel& model, Adapter& adapter, const Records& train,
                             const Records* valid, const TrainingRunConfig& config,
                             const std::filesystem::path& resume_from,
                             const TrainingCallbacks& callbacks);

}  // namespace clora
