// The options of the learning rate: its peak, the schedule and the warm-up.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "clora/model/training/training_config.hpp"

namespace clora {

struct RateOptions {
  double learning_rate = TrainingRunConfig{}.learning_rate;
  std::string schedule = "constant";
  std::int64_t warmup_steps = 0;

  void apply_to(TrainingRunConfig& config) const;
};

void add_rate_options(CLI::App& command, RateOptions& options, const std::string& group);

}  // namespace clora
