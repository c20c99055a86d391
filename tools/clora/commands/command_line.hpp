// The command line of clora as a function: parses the arguments, runs the command and reports
// errors.
#pragma once

#include <string>
#include <vector>

namespace clora {

// `arguments` excludes the program's name. Returns the exit code: 0 for success, 2 for a usage
// error, 1 for any other failure. An error is one line on stderr.
int run_command_line(const std::vector<std::string>& arguments);

}  // namespace clora
