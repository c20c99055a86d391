// The settings of a training run, and the values derived from them: its number of steps and the
// learning rate of each. Pure functions; thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>
#include <vector>

#include "clora/model/data/data_order.hpp"
#include "clora/model/training/communicator.hpp"
#include "clora/model/training/contrastive_loss.hpp"
#include "clora/model/training/moments.hpp"
#include "clora/model/transformer/memory_policy.hpp"

namespace clora {

enum class Schedule { constant, linear, cosine };
std::string_view name_of(Schedule schedule);

struct TrainingRunConfig {
  std::int64_t batch_size = 4;  // records per micro-batch
  std::int64_t grad_accumulation = 1;
  std::int64_t steps = 0;  // optimiser steps; 0: determined by epochs
  double epochs = 1;
  double learning_rate = 2e-4;
  Schedule schedule = Schedule::constant;
  std::int64_t warmup_steps = 0;  // linear from 0
  double weight_decay = 0;
  double clip_norm = 0;
  double router_aux_loss_coef = 0;  // as in TrainerConfig
  MomentType moments = MomentType::f32;
  bool shuffle = true;
  std::uint64_t seed = 0;
  std::int64_t eval_every = 0;  // steps; 0: only at the end, if there is a validation set
  // Steps between checkpoints. 0: no checkpoints, only the adapter at the end; else there is also a
  // checkpoint at the end, from which the run can be extended.
  std::int64_t save_every = 0;
  std::filesystem::path adapter_out;  // checkpoints go to adapter_out/checkpoint-STEP
  // Length in tokens at which records were truncated; a resumed run must use the same. 0: unknown.
  std::int64_t max_seq_length = 0;
  std::optional<ContrastiveLoss> contrastive = {};  // of text pairs; nullopt: of the next token
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

// Returns the learning rate of optimiser step `step` (from 1) of `total`: warm-up from 0, then
// constant or with linear or cosine decay towards 0.
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
