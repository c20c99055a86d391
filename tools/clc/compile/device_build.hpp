// Builds a kernel file with a device's driver in a child process with a time limit, so a driver
// that crashes or hangs is reported as a result.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "runtime/programs/program_report.hpp"
#include "tools/clc/compile/diagnostics.hpp"
#include "tools/command_line/cli_declarations.hpp"
#include "tools/command_line/program.hpp"

namespace clora {

struct DeviceBuild {
  enum class End { built, refused, crashed, out_of_time };
  End end = End::built;
  std::string words;  // the error: the driver's log, or how the process ended
  std::vector<Diagnostic> diagnostics;
  double seconds = 0;
  std::vector<KernelReport> kernels;
};

// A build of a file on a device.
struct DeviceBuildRequest {
  std::string file;  // as for open_kernel_file()
  std::vector<std::filesystem::path> include_folders;
  std::string options;
  int device = 0;                // Device::index
  double limit_seconds = 120;    // for the entire process
  std::filesystem::path binary;  // destination of the driver's binary; empty: not written
  // The folder for pocl's machine code; empty: not kept.
  std::filesystem::path pocl_cache = {};
};

// Runs the build in a new process of this program. Errors: not_found, io.
DeviceBuild build_in_child(const DeviceBuildRequest& request);

// The hidden command that build_in_child() runs.
void add_device_build_command(CLI::App& program, Action& action);

std::string_view name_of(DeviceBuild::End end);

}  // namespace clora
