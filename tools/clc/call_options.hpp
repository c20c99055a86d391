// The options that say which kernel is called, and with what: those of `clc run`, check and others.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "tools/clc/common_options.hpp"
#include "tools/clc/expression.hpp"
#include "tools/clc/kernel_call.hpp"

namespace clora {

struct CallOptions {
  ClcOptions common;
  std::string file;  // or a captured launch's folder
  std::string kernel;
  std::string global, local;           // "1024,4", expressions; empty: as the file's head says
  std::vector<std::string> arguments;  // of --arg
  int set = 1;                         // of the head's sets for this device
};

// FILE, --kernel, --global, --local, --arg and --set, and the options shared by all commands.
void add_call_options(CLI::App& command, CallOptions& options);

// What to build the file with on a device: of the sets that option_sets() gives, the one asked for;
// of a captured launch its own, with those of the command line in their place. Errors: UsageError,
// where there is none; those of read_captured_call().
std::string chosen_options(const CallOptions& options, const KernelFile& file,
                           const Device& device);

// The call of a kernel that is built with `build_options`. Its grid may depend on them and on its
// numbers. Of a captured launch, what its folder holds, and what the options say in its place;
// built otherwise than it was, it takes its grid from the file's head, if that tells one. Errors:
// UsageError; those of open_kernel_file() and read_captured_call().
KernelCallSpec call_spec(const CallOptions& options, const KernelFile& file,
                         const std::string& build_options);
KernelCallSpec call_spec(const CallOptions& options, const KernelFile& file, const Device& device);

// What expressions of a call may name: -D values that are numbers, and arguments that are.
Variables call_variables(const std::string& build_options,
                         const std::vector<CallArgument>& arguments);

// "1024", "1024,4" or "ceil(N/8)*64,8,2"; `what` is for the message. Errors: UsageError.
GridSize parse_grid_size(const std::string& text, const Variables& variables,
                         std::string_view what);

}  // namespace clora
