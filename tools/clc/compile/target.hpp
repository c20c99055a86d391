// Targets: the processors that clc compiles kernels for, installed or not. Pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "clora/runtime/device/device.hpp"
#include "tools/clc/commands/common_options.hpp"
#include "tools/clc/kernel_file/kernel_file.hpp"
#include "tools/command_line/cli_declarations.hpp"

namespace clora {

struct Target {
  enum class Maker { nvidia, amd, intel, this_device };
  std::string_view name;  // "sm_80", "gfx90a", "pvc"; "device" for the OpenCL device
  Maker maker = Maker::this_device;
  MatrixUnit matrix_unit = MatrixUnit::none;
  std::string_view compiler = "clang-14";  // a program; also the Debian package, except for ocloc
};

// All targets, "device" last.
const std::vector<Target>& all_targets();

// The targets named by words such as {"sm_80", "gfx90a"} and "all", without duplicates, in the
// order of all_targets(). Without words: sm_80, one of each AMD generation, and the device. Errors:
// UsageError, with a list of the targets.
std::vector<Target> targets_named(const std::vector<std::string>& words);

// --target; `words` may hold comma-separated lists.
void add_target_option(CLI::App& command, std::vector<std::string>& words);

// The option sets of a file (common_options.hpp) for a target that is not installed.
std::vector<std::string> option_sets_for(const ClcOptions& options, const KernelFile& file,
                                         const Target& target);

}  // namespace clora
