// The command line of clc as a function: parses, runs the command, reports mistakes.
#pragma once

#include <string>
#include <vector>

namespace clora {

// The arguments without the program's name. Returns the exit code: 0 good, 1 findings or a failure,
// 2 a mistake in the call.
int run_clc(const std::vector<std::string>& arguments);

}  // namespace clora
