// The options that describe an adapter, for commands that create one. Each is appended to the
// command's options, in `group` of its help.
#pragma once

#include <string>
#include <vector>

#include "clora/lora/adapter.hpp"
#include "tools/command_line/cli_declarations.hpp"

namespace clora {

void add_rank_option(CLI::App& command, AdapterConfig& adapter, const std::string& group);
void add_dropout_option(CLI::App& command, AdapterConfig& adapter, const std::string& group);
// The target modules for select_sites(). REQUIRES: modules are {"all-linear"}, the default that the
// help shows.
void add_target_modules_option(CLI::App& command, std::vector<std::string>& modules,
                               const std::string& group);

}  // namespace clora
