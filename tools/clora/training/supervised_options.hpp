// The options of the loss of the next token (SupervisedLoss) and of the noise of its gradient, and
// the text of what they add to a step.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "clora/model/training/supervised_loss.hpp"
#include "clora/model/training/trainer.hpp"
#include "clora/model/training/training_config.hpp"
#include "tools/command_line/cli_declarations.hpp"

namespace clora {

struct SupervisedOptions {
  SupervisedLoss loss;
  bool gradient_noise = false;

  void apply_to(TrainingRunConfig& config) const;
};

void add_supervised_options(CLI::App& command, SupervisedOptions& options);

// Adds "nll" and "noise_scale" to the event of a step, where it has them.
void add_supervised(nlohmann::ordered_json& event, const StepResult& result);
// "nll 1.2345  ", if the loss has other terms, too.
std::string supervised_text(const StepResult& result);

}  // namespace clora
