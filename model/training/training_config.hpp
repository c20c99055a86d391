// The settings of a training run, and the values derived from them: its number of steps and the
// learning rate of each. Pure functions; thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>
#include <vector>

#include "clora/model/adapter_files/adapter_files.hpp"
#include "clora/model/data/data_order.hpp"
#include "clora/model/training/communicator.hpp"
#include "clora/model/training/contrastive_loss.hpp"
#include "clora/model/training/optimizer.hpp"
#include "clora/model/training/preference_loss.hpp"
#include "clora/model/training/supervised_loss.hpp"
#include "clora/model/transformer/memory_policy.hpp"

namespace clora {

// wsd: warm-up, stable, decay; the rate is constant until the last decay_share of the run.
enum class Schedule { constant, linear, cosine, wsd };
std::string_view name_of(Schedule schedule);
// Errors: invalid_argument, with all names.
Schedule named_schedule(std::string_view name);

struct TrainingRunConfig {
  std::int64_t batch_size = 4;  // records per micro-batch
  std::int64_t grad_accumulation = 1;
  std::int64_t steps = 0;  // optimiser steps; 0: determined by epochs
  double epochs = 1;
  double learning_rate = 2e-4;
  Schedule schedule = Schedule::constant;
  std::int64_t warmup_steps = 0;  // linear from 0
  double warmup_share = 0;        // of the run's steps, rounded up, instead of warmup_steps
  double decay_share = 0.2;       // of the run's steps, for Schedule::wsd
  double min_rate_share = 0;      // of the learning rate, towards which a schedule decays
  double weight_decay = 0;
  double clip_norm = 0;
  std::int64_t frozen_ranks = 0;    // as in TrainerConfig
  double average_decay = 0;         // as in TrainerConfig; the average is saved in adapter_out/ema
  double router_aux_loss_coef = 0;  // as in TrainerConfig
  OptimizerConfig optimizer = {};
  bool shuffle = true;
  std::uint64_t seed = 0;
  std::int64_t eval_every = 0;  // steps; 0: only at the end, if there is a validation set
  // Validations without an improvement of the held-out loss by more than min_improvement, after
  // which the run ends; 0: off. The adapter with the lowest held-out loss is then the result.
  std::int64_t patience = 0;
  double min_improvement = 0;  // nats per token
  // Steps between checkpoints. 0: no checkpoints, only the adapter at the end; else there is also a
  // checkpoint at the end, from which the run can be extended.
  std::int64_t save_every = 0;
  std::filesystem::path adapter_out;  // with its checkpoint-STEP; empty: nothing is saved
  // The format in which the results are written besides PEFT's (model/training/result_files.hpp).
  AdapterFormat adapter_format = AdapterFormat::peft;
  // Length in tokens at which records were truncated; a resumed run must use the same. 0: unknown.
  std::int64_t max_seq_length = 0;
  std::optional<ContrastiveLoss> contrastive = {};  // of text pairs; nullopt: of the next token
  std::optional<PreferenceLoss> preference = {};    // of answers that are compared
  SupervisedLoss supervised = {};                   // of the next token
  bool gradient_noise = false;  // as in TrainerConfig; REQUIRES: several micro-batches in a step
  MemoryPolicy policy = {};
  // The ranks that train together (TrainerConfig::ranks), or null. grad_accumulation counts the
  // micro-batches of all of them.
  Communicator* ranks = nullptr;
  // In what proportions micro-batches are dealt to the ranks. Empty: equal ones for like devices,
  // else by their speed, measured at the start, or as before if the run resumes on such devices.
  std::vector<std::int64_t> device_shares = {};
};

// Limit of the optimiser steps in a run.
inline constexpr std::int64_t kMaxSteps = 1'000'000'000;

// Throws Error(invalid_argument), with the valid range, for a setting out of range.
void check(const TrainingRunConfig& config);

// Returns the order of the records. Errors: those of check() and DataOrder; invalid_data for no
// records.
DataOrder order_of(const TrainingRunConfig& config, const std::vector<DataShare>& shares);

// Returns the number of warm-up steps of a run of `total` steps, which may be fewer.
std::int64_t warmup_steps_of(const TrainingRunConfig& config, std::int64_t total);

// Returns the learning rate of optimiser step `step` (from 1) of `total`: peak * step / warm-up in
// the warm-up, then peak * (m + (1 - m) f) with m = min_rate_share and f of the schedule, where p
// is the completed share of the decay before the step:
//   constant  1
//   linear    1 - p
//   cosine    (1 + cos(pi p)) / 2
//   wsd       1 until the decay, then 1 - sqrt(p) (Hagele et al. 2024, arXiv:2405.18392)
// These are the values of transformers' get_scheduler() for linear, cosine, cosine_with_min_lr and
// warmup_stable_decay (decay_type 1-sqrt), whose step numbers begin at 0, after the warm-up. In the
// warm-up, transformers' first rate is 0 and each rate is that of clora's step before.
double learning_rate_at(const TrainingRunConfig& config, std::int64_t step, std::int64_t total);

// Whether steps 1 to `last` have the same rates in a run of `total` steps as in one of `other`.
bool same_rates(const TrainingRunConfig& config, std::int64_t last, std::int64_t total,
                std::int64_t other);

// Returns the number of optimiser steps of the run on these records. Errors: those of order_of();
// invalid_argument for more than kMaxSteps.
std::int64_t total_steps(const TrainingRunConfig& config, const std::vector<DataShare>& shares);
inline std::int64_t total_steps(const TrainingRunConfig& config, std::size_t records) {
  return total_steps(config, std::vector{DataShare{.records = records}});
}

}  // namespace clora
