// Options shared by several commands of clc.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "clora/runtime/context.hpp"
#include "tools/clc/kernel_file/kernel_file.hpp"
#include "tools/command_line/cli_declarations.hpp"
#include "tools/command_line/output.hpp"

namespace clora {

struct ClcOptions {
  std::string device;
  std::vector<std::string> defines;                    // from -D: NAME or NAME=VALUE
  std::vector<std::filesystem::path> include_folders;  // from -I
  std::string options;                                 // from --options
  OutputOptions output{.program = "clc"};
};

// --json, --quiet and --verbose.
void add_output_options(CLI::App& command, ClcOptions& options);
// --device, default $CLORA_DEVICE.
void add_device_option(CLI::App& command, ClcOptions& options);
// -D, -I and --options.
void add_build_options(CLI::App& command, ClcOptions& options);

// The device of --device, or all devices. Errors: no_device.
std::vector<Device> selected_devices(const ClcOptions& options);

// The configuration of a Context on the device selected by the options, or on the given device. It
// uses no stored data of earlier runs and runs no self-tests. Kernel files are searched in the
// folder of `file`.
ContextConfig context_config(const ClcOptions& options, const KernelFile& file);

// Whether -D or --options are given; they replace the option sets of the files' heads.
bool says_how_to_build(const ClcOptions& options);
// The options of -D and --options in the form of clBuildProgram.
std::string given_options(const ClcOptions& options);
// The option sets to build the file with on a device: the given options, else those of its head,
// else one empty set. Empty if the head has sets but none for this device.
std::vector<std::string> option_sets(const ClcOptions& options, const KernelFile& file,
                                     const Device& device);
// All option sets of the file, for any device. Empty if neither the options nor the head state one.
std::vector<BuildSet> every_build_set(const ClcOptions& options, const KernelFile& file);

}  // namespace clora
