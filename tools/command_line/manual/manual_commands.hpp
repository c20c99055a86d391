// The commands of every program that write its completion scripts and manual pages.
#pragma once

#include <string>

#include "tools/command_line/cli_declarations.hpp"

namespace clora {

// Adds `completion`, and `manual`, which the help does not list: it is for installations. Parsing a
// call of either does its work, which needs no device and no folder of the user. REQUIRES: the
// program's other commands are added before the arguments are parsed.
void add_manual_commands(CLI::App& program, const std::string& version);

}  // namespace clora
