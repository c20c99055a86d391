// A program of commands: parses a call, runs the command, reports mistakes. clora and clc are two.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <vector>

namespace clora {

// What a command does; returns the exit code.
// Errors: clora::Error and UsageError; both are reported by run_program().
using Action = std::function<int()>;

struct CommandProgram {
  std::string name;
  std::string version;
  std::string description;
  std::string footer;  // under the list of commands
  // Adds the commands with their options and help; parsing a call of one sets `action`.
  void (*add_commands)(CLI::App& program, Action& action);
};

// The arguments without the program's name. Returns the exit code: that of the action, 2 for a
// mistake in the call, 1 for every other failure; errors are one line on stderr.
int run_program(const CommandProgram& described, const std::vector<std::string>& arguments);

}  // namespace clora
