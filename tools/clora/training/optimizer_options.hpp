// The options of the optimizer, of commands that train or plan.
#pragma once

#include <string>

#include "clora/model/training/optimizer.hpp"
#include "tools/command_line/cli_declarations.hpp"

namespace clora {

struct OptimizerOptions {
  std::string name = "adamw";
  OptimizerConfig settings;  // besides the kind
  OptimizerConfig config() const;
};

void add_optimizer_options(CLI::App& command, OptimizerOptions& options, const std::string& group);

}  // namespace clora
