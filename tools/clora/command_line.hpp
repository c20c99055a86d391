// The command line of clora as a function: parses, runs the command, reports mistakes.
#pragma once

#include <string>
#include <vector>

namespace clora {

// The arguments without the program's name. Returns the exit code: 0, 2 for a mistake in the call,
// 1 for every other failure; errors are one line on stderr.
int run_command_line(const std::vector<std::string>& arguments);

}  // namespace clora
