// The options that describe an adapter, for commands that make one. Each is added at the end of the
// command's options, in `group` of its help.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "lora/adapter.hpp"

namespace clora {

void add_rank_option(CLI::App& command, AdapterConfig& adapter, const std::string& group);
void add_dropout_option(CLI::App& command, AdapterConfig& adapter, const std::string& group);
// For select_sites(). REQUIRES: modules are {"all-linear"}, which the help tells.
void add_target_modules_option(CLI::App& command, std::vector<std::string>& modules,
                               const std::string& group);

}  // namespace clora
