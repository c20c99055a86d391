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

void require_share(double value, std::string_view name) {
  require(std::isfinite(value) && value >= 0 && value <= 1,
          "training: the {} must be from 0 to 1, got {}", name, value);
}

void check_rates(const TrainingRunConfig& config) {
  require_not_negative(config.learning_rate, "learning rate");
  require(config.warmup_steps >= 0 && config.warmup_steps <= kMaxSteps,
          "training: the number of warm-up steps must be from 0 to {}, got {}", kMaxSteps,
          config.warmup_steps);
  require_share(config.warmup_share, "warm-up's share of the run");
  require(config.warmup_share == 0 || config.warmup_steps == 0,
          "training: the warm-up must be given as steps or as a share of the run, got {} and {}",
          config.warmup_steps, config.warmup_share);
  require_share(config.min_rate_share, "minimum rate's share of the learning rate");
  require(config.min_rate_share == 0 || config.schedule != Schedule::constant,
          "training: a minimum rate requires a schedule that decays, got the constant one");
  require_share(config.decay_share, "decay's share of the run");
  require(config.schedule != Schedule::wsd || config.warmup_share + config.decay_share <= 1,
          "training: the shares of warm-up and decay must add up to at most 1, got {} and {}",
          config.warmup_share, config.decay_share);
}

void check_supervised(const TrainingRunConfig& config) {
  check(config.supervised);
  require(config.supervised == SupervisedLoss() || (!config.contrastive && !config.preference),
          "training: label smoothing, the z-loss and NEFTune are options of the loss of the next "
          "token, but the run has a {} loss; leave them out",
          config.contrastive ? "contrastive" : "preference");
  require(!config.gradient_noise || config.grad_accumulation > 1,
          "training: the noise of the gradient is estimated from micro-batches, of which a step "
          "must have several, got 1; raise `grad_accumulation`");
}

// The number of steps before the decay, in which the rate does not depend on the run's length
// except by the warm-up. A decay that is longer than the run begins after the warm-up.
std::int64_t steps_before_decay(const TrainingRunConfig& config, std::int64_t total) {
  const std::int64_t warmup = warmup_steps_of(config, total);
  if (config.schedule == Schedule::constant) return total;
  if (config.schedule != Schedule::wsd) return warmup;
  const auto decay =
      static_cast<std::int64_t>(std::round(config.decay_share * static_cast<double>(total)));
  return std::max(warmup, total - decay);
}

// The schedule's part of the rate when the share `done` of the decay is completed.
double decayed(Schedule schedule, double done) {
  switch (schedule) {
    case Schedule::linear:
      return 1 - done;
    case Schedule::cosine:
      return 0.5 * (1 + std::cos(std::numbers::pi * done));
    case Schedule::wsd:
      return 1 - std::sqrt(done);
    case Schedule::constant:
      break;
  }
  return 1;
}

}  // namespace

std::string_view name_of(Schedule schedule) {
  switch (schedule) {
    case Schedule::wsd:
      return "wsd";
    case Schedule::linear:
      return "linear";
    case Schedule::cosine:
      return "cosine";
    case Schedule::constant:
      break;
  }
  return "constant";
}

Schedule named_schedule(std::string_view name) {
  for (const Schedule schedule :
       {Schedule::constant, Schedule::linear, Schedule::cosine, Schedule::wsd}) {
    if (name_of(schedule) == name) return schedule;
  }
  fail(ErrorCode::invalid_argument,
       "training: the schedule must be constant, linear, cosine or wsd, got '{}'", name);
}

void check(const TrainingRunConfig& config) {
  check(config.policy);
  check_supervised(config);
  check(config.optimizer);
  require_at_least(1, config.batch_size, "batch size");
  require_at_least(1, config.grad_accumulation, "gradient accumulation");
  require_at_least(0, config.eval_every, "number of steps between evaluations");
  require_at_least(0, config.save_every, "number of steps between checkpoints");
  require_at_least(0, config.patience, "number of validations without an improvement");
  require_not_negative(config.min_improvement, "minimum improvement");
  require(config.patience == 0 || config.eval_every > 0,
          "training: early stopping requires evaluations during the run; set `eval_every`");
  check_rates(config);
  require_not_negative(config.weight_decay, "weight decay");
  require_not_negative(config.clip_norm, "largest norm of the gradient");
  require(config.average_decay >= 0 && config.average_decay < 1,
          "training: the decay of the average must be in [0, 1), got {}", config.average_decay);
  require_not_negative(config.router_aux_loss_coef, "weight of the loss that balances experts");
  require(config.steps >= 0 && config.steps <= kMaxSteps,
          "training: the number of steps must be from 0 (use the number of epochs) to {}, got {}",
          kMaxSteps, config.steps);
  require(config.steps > 0 || (std::isfinite(config.epochs) && config.epochs > 0),
          "training: the number of epochs must be finite and above 0, got {}", config.epochs);
  if (config.preference) check(*config.preference);
  require(!config.preference || !config.contrastive,
          "training: a run has a contrastive loss or one of preferences, not both");
  require(
      !config.preference || !config.preference->has_kl() || config.batch_size > 1,
      "training: kto needs a batch size of at least 2, since its KL term pairs prompts with the "
      "answers of other records");
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

std::int64_t warmup_steps_of(const TrainingRunConfig& config, std::int64_t total) {
  if (config.warmup_share == 0) return config.warmup_steps;
  return static_cast<std::int64_t>(std::ceil(config.warmup_share * static_cast<double>(total)));
}

double learning_rate_at(const TrainingRunConfig& config, std::int64_t step, std::int64_t total) {
  const std::int64_t warmup = warmup_steps_of(config, total);
  if (step <= warmup) {
    return config.learning_rate * static_cast<double>(step) / static_cast<double>(warmup);
  }
  const std::int64_t before = steps_before_decay(config, total);
  if (step <= before) return config.learning_rate;
  // It would reach 1 one step after the last.
  const double done = static_cast<double>(step - 1 - before) /
                      static_cast<double>(std::max<std::int64_t>(1, total - before));
  const double least = config.min_rate_share;
  return config.learning_rate * (least + (1 - least) * decayed(config.schedule, done));
}

// The first step of a decay has the full rate; from the second on, the slope depends on the total.
bool same_rates(const TrainingRunConfig& config, std::int64_t last, std::int64_t total,
                std::int64_t other) {
  if (total == other || last == 0) return true;
  const auto warmup = [&](std::int64_t steps) {  // one step has the full rate, like none
    return std::max<std::int64_t>(1, warmup_steps_of(config, steps));
  };
  if (warmup(total) != warmup(other)) return false;
  if (config.schedule == Schedule::constant) return true;
  return last <= 1 + std::min(steps_before_decay(config, total), steps_before_decay(config, other));
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
