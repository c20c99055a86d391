// Tells people why a first start is long: the driver compiles kernels. On a terminal a line that
// counts them, which the next output takes the place of; without one a single line, and that only
// where compiling takes more than a second of processor time. Silent with --quiet.
#pragma once

#include <functional>

#include "runtime/hooks.hpp"
#include "tools/command_line/output.hpp"

namespace clora {

// For Hooks::build of one Context.
std::function<void(const ProgramBuild&)> build_notice(const OutputOptions& options);

}  // namespace clora
