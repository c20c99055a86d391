// The subcommands of `clora adapters`. Each function adds one to the group, like those of
// tools/clora/commands/commands.hpp.
#pragma once

#include "tools/command_line/program.hpp"

namespace clora {

void add_adapters_add_command(CLI::App& group, Action& action);
void add_adapters_subtract_command(CLI::App& group, Action& action);
void add_adapters_convert_command(CLI::App& group, Action& action);
void add_adapters_extract_command(CLI::App& group, Action& action);
void add_adapters_resize_command(CLI::App& group, Action& action);
void add_adapters_prune_command(CLI::App& group, Action& action);
void add_adapters_diff_command(CLI::App& group, Action& action);
void add_adapters_quantise_command(CLI::App& group, Action& action);

}  // namespace clora
