// A program of commands: parses the arguments, runs the command and reports errors. Used by clora
// and clc.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tools/command_line/cli_declarations.hpp"

namespace clora {

// The work of a command; returns the exit code.
// Errors: clora::Error and UsageError; run_program() reports both.
using Action = std::function<int()>;

struct CommandProgram {
  std::string name;
  std::string version;
  std::string description;
  std::string footer;  // below the list of commands
  // Adds the commands with their options and help. Parsing a call of a command sets `action`.
  void (*add_commands)(CLI::App& program, Action& action);
};

// `arguments` excludes the program's name. Returns the exit code: that of the action, 2 for a usage
// error, 1 for any other failure. An error is one line on stderr.
int run_program(const CommandProgram& described, const std::vector<std::string>& arguments);

}  // namespace clora
