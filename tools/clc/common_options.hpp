// Options that several commands of clc share, with one wording.
#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "runtime/context.hpp"
#include "tools/clc/kernel_file.hpp"
#include "tools/command_line/output.hpp"

namespace clora {

struct ClcOptions {
  std::string device;
  std::vector<std::string> defines;                    // of -D: NAME or NAME=VALUE
  std::vector<std::filesystem::path> include_folders;  // of -I
  std::string options;                                 // of --options
  OutputOptions output{.program = "clc"};
};

// --json, --quiet and --verbose.
void add_output_options(CLI::App& command, ClcOptions& options);
// --device, from CLORA_DEVICE where it is not given.
void add_device_option(CLI::App& command, ClcOptions& options);
// -D, -I and --options.
void add_build_options(CLI::App& command, ClcOptions& options);

// For a Context on the device that the options ask for, or on another one; nothing is kept from
// earlier runs and no variant tested. Kernel files are looked for where `file` lies.
ContextConfig context_config(const ClcOptions& options, const KernelFile& file);

// Whether -D or --options say how files are to be built, so that their heads do not.
bool says_how_to_build(const ClcOptions& options);
// The options of -D and --options, as for clBuildProgram.
std::string given_options(const ClcOptions& options);
// What to build the file with on a device: as was given, else as its head says, else nothing. Empty
// where its head has sets, and none is meant for this device.
std::vector<std::string> option_sets(const ClcOptions& options, const KernelFile& file,
                                     const Device& device);
// The same for no device: all sets of the file's head, whatever they are meant for. Empty where
// nothing says how to build it.
std::vector<BuildSet> every_build_set(const ClcOptions& options, const KernelFile& file);

}  // namespace clora
