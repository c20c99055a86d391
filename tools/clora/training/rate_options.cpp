#include "tools/clora/training/rate_options.hpp"

#include "tools/command_line/number_options.hpp"

namespace clora {

void RateOptions::apply_to(TrainingRunConfig& config) const {
  config.learning_rate = learning_rate;
  config.schedule = schedule == "linear"   ? Schedule::linear
                    : schedule == "cosine" ? Schedule::cosine
                                           : Schedule::constant;
  config.warmup_steps = warmup_steps;
}

void add_rate_options(CLI::App& command, RateOptions& options, const std::string& group) {
  command.add_option("--lr", options.learning_rate, "Peak learning rate")
      ->transform(NumberAbove(0, 10))
      ->capture_default_str()
      ->group(group);
  command.add_option("--schedule", options.schedule, "Learning rate schedule")
      ->check(CLI::IsMember({"constant", "linear", "cosine"}))
      ->capture_default_str()
      ->group(group);
  command
      .add_option("--warmup-steps", options.warmup_steps,
                  "Warmup steps, in which the rate rises from 0")
      ->transform(Integer(0, kMaxCount))
      ->type_name("STEPS")
      ->capture_default_str()
      ->group(group);
}

}  // namespace clora
