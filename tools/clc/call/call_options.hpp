// The options that select a kernel and its arguments, shared by `clc run`, `clc check` and others.
#pragma once

#include <string>
#include <vector>

#include "tools/clc/call/kernel_call.hpp"
#include "tools/clc/commands/common_options.hpp"
#include "tools/clc/kernel_file/expression.hpp"
#include "tools/command_line/cli_declarations.hpp"

namespace clora {

struct CallOptions {
  ClcOptions common;
  std::string file;  // or the folder of a captured launch
  std::string kernel;
  std::string global, local;           // "1024,4", expressions; empty: from the file's head
  std::vector<std::string> arguments;  // from --arg
  int set = 1;                         // which of the head's option sets for this device
};

// FILE, --kernel, --global, --local, --arg and --set, and the options shared by all commands.
void add_call_options(CLI::App& command, CallOptions& options);

// The build options of the file on a device: the selected one of option_sets(). For a captured
// launch: its own options, overridden by those of the command line. Errors: UsageError if there is
// none; those of read_captured_call().
std::string chosen_options(const CallOptions& options, const KernelFile& file,
                           const Device& device);

// The call of a kernel built with `build_options`, on which its grid may depend. For a captured
// launch: the contents of its folder, overridden by the options. If a captured launch is built with
// other options, its grid comes from the file's head, if the head states one. Errors: UsageError;
// those of open_kernel_file() and read_captured_call().
KernelCallSpec call_spec(const CallOptions& options, const KernelFile& file,
                         const std::string& build_options);
KernelCallSpec call_spec(const CallOptions& options, const KernelFile& file, const Device& device);

// The variables of a call's expressions: numeric -D values and numeric arguments.
Variables call_variables(const std::string& build_options,
                         const std::vector<CallArgument>& arguments);

// "1024", "1024,4" or "ceil(N/8)*64,8,2"; `what` names the option in the message. Errors:
// UsageError.
GridSize parse_grid_size(const std::string& text, const Variables& variables,
                         std::string_view what);

}  // namespace clora
