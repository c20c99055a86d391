// The builds of a command: which files, with which options, on which devices, and their results.
// Shared by `clc build`, which reports each build, and `clc matrix`, which reports all in a table.
#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "clora/runtime/device/device.hpp"
#include "tools/clc/commands/common_options.hpp"
#include "tools/clc/compile/device_build.hpp"

namespace clora {

struct BuildTask {
  std::string path;  // as given
  std::shared_ptr<const KernelFile> file;
  std::string options;
  Device device;
};

struct BuildOptions {
  ClcOptions common;
  std::vector<std::string> files;
  double limit_seconds = 120;  // per build
  int jobs = 0;                // parallel builds; 0: one per core
};

// --limit, --jobs and all options of ClcOptions.
void add_build_task_options(CLI::App& command, BuildOptions& options);

// Every option set of every file on the requested device, or on all devices.
// Errors: not_found, invalid_file; no_device.
std::vector<BuildTask> build_tasks(const BuildOptions& options);

// Runs all builds. Reports each build as soon as it and all before it are done.
std::vector<DeviceBuild> build_all(
    const std::vector<BuildTask>& tasks, const BuildOptions& options,
    const std::function<void(const BuildTask&, const DeviceBuild&)>& on_build);

nlohmann::ordered_json json_of(const BuildTask& task, const DeviceBuild& build);

}  // namespace clora
