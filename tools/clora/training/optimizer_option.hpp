// The option --optimizer of commands that train or plan: how AdamW's moments are stored.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "clora/model/training/moments.hpp"

namespace clora {

struct OptimizerOption {
  std::string name = "adamw";
  MomentType moments() const;
};

void add_optimizer_option(CLI::App& command, OptimizerOption& option, const std::string& group);

}  // namespace clora
