#include "clora/model/training/training_config.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "runtime/fail.hpp"

namespace clora {
namespace {

void require_at_least(std::int64_t least, std::int64_t value, std::string_view name) {
  require(value >= least, "training: the {} must be at least {}, got {}", name, least, value);
}

void require_not_negative(double value, std::string_view name) {
  require(std::isfinite(value) && value >= 0,
          "training: the {} must be finite and at least 0, got {}", name, value);
}

}  // namespace

std::string_view name_of(Schedule schedule) {
  switch (schedule) {
    case Schedule::linear:
      return "linear";
    case Schedule::cosine:
      return "cosine";
    case Schedule::constant:
      break;
  }
  return "constant";
}

void check(const TrainingRunConfig& config) {
  check(config.policy);
  check(config.optimizer);
  require_at_least(1, config.batch_size, "batch size");
  require_at_least(1, config.grad_accumulation, "gradient accumulation");
  require_at_least(0, config.eval_every, "number of steps between evaluations");
  require_at_least(0, config.save_every, "number of steps between checkpoints");
  require_not_negative(config.learning_rate, "learning rate");
  require_not_negative(config.weight_decay, "weight decay");
  require_not_negative(config.clip_norm, "largest norm of the gradient");
  require(config.average_decay >= 0 && config.average_decay < 1,
          "training: the decay of the average must be in [0, 1), got {}", config.average_decay);
  require_not_negative(config.router_aux_loss_coef, "weight of the loss that balances experts");
  require(config.steps >= 0 && config.steps <= kMaxSteps,
          "training: the number of steps must be from 0 (use the number of epochs) to {}, got {}",
          kMaxSteps, config.steps);
  require(config.warmup_steps >= 0 && config.warmup_steps <= kMaxSteps,
          "training: the number of warm-up steps must be from 0 to {}, got {}", kMaxSteps,
          config.warmup_steps);
  require(config.steps > 0 || (std::isfinite(config.epochs) && config.epochs > 0),
          "training: the number of epochs must be finite and above 0, got {}", config.epochs);
  if (!config.contrastive) return;
  const double scale = config.contrastive->scale;
  require(std::isfinite(scale) && scale > 0,
          "training: the scale of the cosines must be finite and above 0, got {}", scale);
  require(config.batch_size > 1,
          "training: the contrastive loss needs a batch size of at least 2, since the other texts "
          "of a batch are an anchor's negatives");
}

DataOrder order_of(const TrainingRunConfig& config, const std::vector<DataShare>& shares) {
  check(config);
  if (std::ranges::all_of(shares, [](const DataShare& share) { return share.records == 0; })) {
    fail(ErrorCode::invalid_data,
         "training: at least one record with a token that counts towards the loss is required, got "
         "none");
  }
  return {shares, static_cast<std::size_t>(config.batch_size),
          static_cast<std::size_t>(config.grad_accumulation), config.shuffle, config.seed};
}

double learning_rate_at(const TrainingRunConfig& config, std::int64_t step, std::int64_t total) {
  if (step <= config.warmup_steps) {
    return config.learning_rate * static_cast<double>(step) /
           static_cast<double>(config.warmup_steps);
  }
  // The completed fraction of the decay; it would reach 1 one step after the last.
  const double done = static_cast<double>(step - 1 - config.warmup_steps) /
                      static_cast<double>(std::max<std::int64_t>(1, total - config.warmup_steps));
  switch (config.schedule) {
    case Schedule::linear:
      return config.learning_rate * (1 - done);
    case Schedule::cosine:
      return config.learning_rate * 0.5 * (1 + std::cos(std::numbers::pi * done));
    case Schedule::constant:
      break;
  }
  return config.learning_rate;
}

// The decay starts at the second step after the warm-up, with a slope that depends on the total.
bool same_rates(const TrainingRunConfig& config, std::int64_t last, std::int64_t total,
                std::int64_t other) {
  return total == other || config.schedule == Schedule::constant || last <= config.warmup_steps + 1;
}

std::int64_t total_steps(const TrainingRunConfig& config, const std::vector<DataShare>& shares) {
  const auto per_epoch = static_cast<double>(order_of(config, shares).steps_per_epoch());
  if (config.steps > 0) return config.steps;
  const double steps = per_epoch * config.epochs;
  require(steps <= static_cast<double>(kMaxSteps),
          "training: {} epochs of {} steps exceed the limit of {} steps per run", config.epochs,
          per_epoch, kMaxSteps);
  return std::max<std::int64_t>(1, std::llround(steps));
}

}  // namespace clora
