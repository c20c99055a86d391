// The command line of clc as a function: parses the arguments, runs the command and reports errors.
#pragma once

#include <string>
#include <vector>

namespace clora {

// `arguments` excludes the program's name. Returns the exit code: 0 for success, 1 for findings or
// a failure, 2 for a usage error.
int run_clc(const std::vector<std::string>& arguments);

}  // namespace clora
