// A kernel file built by a device's driver in a process of its own with a time limit: a driver that
// crashes or hangs is an outcome, not the end.
#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "runtime/program_report.hpp"
#include "tools/clc/diagnostics.hpp"
#include "tools/command_line/program.hpp"

namespace clora {

struct DeviceBuild {
  enum class End { built, refused, crashed, out_of_time };
  End end = End::built;
  std::string words;  // why it was not built: the driver's, or how the process ended
  std::vector<Diagnostic> diagnostics;
  double seconds = 0;
  std::vector<KernelReport> kernels;
};

// What to build on which device.
struct DeviceBuildRequest {
  std::string file;  // as open_kernel_file() takes it
  std::vector<std::filesystem::path> include_folders;
  std::string options;
  int device = 0;                // Device::index
  double limit_seconds = 120;    // for the whole process
  std::filesystem::path binary;  // where the driver's binary goes; empty: nowhere
  // Where pocl leaves its machine code; empty: nothing is kept.
  std::filesystem::path pocl_cache = {};
};

// Starts this program again for it. Errors: not_found, io.
DeviceBuild build_in_child(const DeviceBuildRequest& request);

// The command that build_in_child() calls; --help does not list it.
void add_device_build_command(CLI::App& program, Action& action);

std::string_view name_of(DeviceBuild::End end);

}  // namespace clora
