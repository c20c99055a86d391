// The options of evaluations during training: early stopping, and what else than the held-out loss
// is computed at each of them (run_evaluation.hpp).
#pragma once

#include <cstdint>
#include <string>

#include "clora/model/training/training_config.hpp"
#include "tools/command_line/cli_declarations.hpp"

namespace clora {

struct EvaluationOptions {
  std::int64_t patience = 0;
  double min_improvement = 0;
  bool exact_match = false;
  std::int64_t replies = 0;  // held-out records for which a reply is generated; 0: all
  std::string choices;       // a file of records with choices
  std::string command;       // of the user, for a shell
  double command_seconds = 600;
  bool command_required = false;

  bool generates() const { return exact_match || !command.empty(); }
  // Errors: invalid_argument for a minimum improvement without early stopping.
  void apply_to(TrainingRunConfig& config) const;
};

void add_evaluation_options(CLI::App& command, EvaluationOptions& options);

}  // namespace clora
