// The options of the learning rate: its peak, the schedule, the warm-up and the decay.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "clora/model/training/training_config.hpp"
#include "tools/command_line/cli_declarations.hpp"

namespace clora {

struct RateOptions {
  double learning_rate = TrainingRunConfig{}.learning_rate;
  std::string schedule = "constant";
  std::int64_t warmup_steps = 0;
  std::optional<double> warmup_share, decay_share, min_rate_share;

  // Errors: invalid_argument for a share that the schedule does not use.
  void apply_to(TrainingRunConfig& config) const;
};

void add_rate_options(CLI::App& command, RateOptions& options, const std::string& group);

}  // namespace clora
