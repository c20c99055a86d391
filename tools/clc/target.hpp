// Targets: what clc compiles kernels for, whether or not it is in this machine. Pure functions.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/device.hpp"
#include "tools/clc/common_options.hpp"
#include "tools/clc/kernel_file.hpp"

namespace clora {

struct Target {
  enum class Maker { nvidia, amd, this_device };
  std::string_view name;  // "sm_80", "gfx90a"; "device" for the OpenCL device that is here
  Maker maker = Maker::this_device;
  MatrixUnit matrix_unit = MatrixUnit::none;
};

// Every target, "device" last.
const std::vector<Target>& all_targets();

// Those of words such as {"sm_80", "gfx90a"} and "all", each once, in the order of all_targets().
// None named: sm_80, one of each of AMD's generations, and the device. Errors: UsageError, with
// what there is.
std::vector<Target> targets_named(const std::vector<std::string>& words);

// --target; `words` may hold several by commas.
void add_target_option(CLI::App& command, std::vector<std::string>& words);

// The option sets of a file (common_options.hpp) for a target that is not here.
std::vector<std::string> option_sets_for(const ClcOptions& options, const KernelFile& file,
                                         const Target& target);

}  // namespace clora
