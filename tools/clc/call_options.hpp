// The options that say which kernel is called, and with what: those of `clc run`, check and others.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "tools/clc/common_options.hpp"
#include "tools/clc/kernel_call.hpp"

namespace clora {

struct CallOptions {
  ClcOptions common;
  std::string file;  // or a captured launch's folder
  std::string kernel;
  std::string global, local;           // "1024,4"
  std::vector<std::string> arguments;  // of --arg
  int set = 1;                         // of the head's sets for this device
};

// FILE, --kernel, --global, --local, --arg and --set, and the options shared by all commands.
void add_call_options(CLI::App& command, CallOptions& options);

// The call on a device. Of the folder of a captured launch, what it holds, and what the options say
// in its place. Errors: UsageError; those of open_kernel_file() and read_captured_call().
KernelCallSpec call_spec(const CallOptions& options, const KernelFile& file, const Device& device);

// "1024", "1024,4" or "64,8,2"; `option` is for the message. Errors: UsageError.
GridSize parse_grid_size(const std::string& text, std::string_view option);

}  // namespace clora
