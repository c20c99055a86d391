// Explains a slow first start: the driver compiles kernels. On a terminal, shows a line with the
// number of programs built, which the next output replaces. Otherwise prints a single line, and
// only if compiling takes more than a second of processor time. Silent with --quiet.
#pragma once

#include <functional>

#include "clora/runtime/hooks.hpp"
#include "tools/command_line/output.hpp"

namespace clora {

// For Hooks::build of one Context.
std::function<void(const ProgramBuild&)> build_notice(const OutputOptions& options);

}  // namespace clora
