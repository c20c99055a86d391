#include "tools/clora/training/rate_options.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <vector>

#include "runtime/fail.hpp"
#include "tools/command_line/number_options.hpp"

namespace clora {
namespace {

constexpr std::array kSchedules{Schedule::constant, Schedule::linear, Schedule::cosine,
                                Schedule::wsd};

std::vector<std::string> schedule_names() {
  std::vector<std::string> names;
  for (const Schedule schedule : kSchedules) names.emplace_back(name_of(schedule));
  return names;
}

}  // namespace

void RateOptions::apply_to(TrainingRunConfig& config) const {
  config.learning_rate = learning_rate;
  config.schedule = named_schedule(schedule);
  config.warmup_steps = warmup_steps;
  config.warmup_share = warmup_share.value_or(0);
  config.min_rate_share = min_rate_share.value_or(0);
  if (!decay_share) return;
  require(config.schedule == Schedule::wsd, "train: --decay-share requires --schedule wsd, got {}",
          schedule);
  config.decay_share = *decay_share;
}

void add_rate_options(CLI::App& command, RateOptions& options, const std::string& group) {
  command.add_option("--lr", options.learning_rate, "Peak learning rate")
      ->transform(NumberAbove(0, 10))
      ->capture_default_str()
      ->group(group);
  command
      .add_option("--schedule", options.schedule,
                  "Learning rate schedule; wsd: warm-up, stable, decay")
      ->check(CLI::IsMember(schedule_names()))
      ->capture_default_str()
      ->group(group);
  CLI::Option* steps = command
                           .add_option("--warmup-steps", options.warmup_steps,
                                       "Warmup steps, in which the rate rises from 0")
                           ->transform(Integer(0, kMaxCount))
                           ->type_name("STEPS")
                           ->capture_default_str()
                           ->group(group);
  command
      .add_option("--warmup-share", options.warmup_share,
                  "The same as a share of the run's steps, rounded up: 0.03")
      ->transform(Number(0, 1))
      ->type_name("SHARE")
      ->group(group)
      ->excludes(steps);
  command
      .add_option(
          "--decay-share", options.decay_share,
          "With --schedule wsd: share of the run's steps at its end in which the rate falls "
          "(default: 0.2)")
      ->transform(Number(0, 1))
      ->type_name("SHARE")
      ->group(group);
  command
      .add_option("--min-lr-share", options.min_rate_share,
                  "Share of --lr towards which a schedule decays (default: 0)")
      ->transform(Number(0, 1))
      ->type_name("SHARE")
      ->group(group);
}

}  // namespace clora
