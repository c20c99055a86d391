// Options that the commands of clora and of clc have in common. Each is appended to the command's
// options.
#pragma once

#include <string>

#include "tools/command_line/cli_declarations.hpp"
#include "tools/command_line/output.hpp"

namespace clora {

// --json, --quiet and --verbose, in the group Output of the help.
void add_output_flags(CLI::App& command, OutputOptions& output);
// --device, default $CLORA_DEVICE, in `group` of the help.
void add_device_selector(CLI::App& command, std::string& device, const std::string& group);

}  // namespace clora
