// The options of a training run that belong to no larger topic: where it writes, its length, its
// optimiser, and when it evaluates and saves. A topic has a file of its own (rate_options.hpp,
// memory_options.hpp): a struct, a function that adds its options, and apply_to(config), each
// called in one line of train_command.cpp.
#pragma once

#include <string>

#include "clora/model/training/training_config.hpp"
#include "tools/clora/training/optimizer_options.hpp"
#include "tools/clora/training/rate_options.hpp"
#include "tools/command_line/cli_declarations.hpp"

namespace clora {

struct RunOptions {
  TrainingRunConfig settings;  // those that an option sets directly; config() completes them
  OptimizerOptions optimizer;
  RateOptions rates;
  std::string adapter_out, resume;
  std::string adapter_format = "peft";  // of the result, besides PEFT's
  bool overwrite = false;

  // The settings with what the options of rates, optimizer and adapter_out say.
  TrainingRunConfig config() const;
};

void add_output_folder_options(CLI::App& command, RunOptions& options, const std::string& group);
void add_length_options(CLI::App& command, RunOptions& options, const std::string& group);
void add_optimiser_options(CLI::App& command, RunOptions& options, const std::string& group);
void add_upkeep_options(CLI::App& command, RunOptions& options, const std::string& group);

}  // namespace clora
