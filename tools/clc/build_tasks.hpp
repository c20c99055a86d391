// Which files are built with which options on which devices, and what came of it.
// Shared by build, which tells of each, and matrix, which tells of all.
#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "runtime/device.hpp"
#include "tools/clc/common_options.hpp"
#include "tools/clc/device_build.hpp"

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
  double limit_seconds = 120;  // of one build
  int jobs = 0;                // builds at a time; 0: one a core
};

// --limit, --jobs, and all of ClcOptions.
void add_build_task_options(CLI::App& command, BuildOptions& options);

// Every set of options of every file on the device that was asked for, or on all.
// Errors: not_found, invalid_file; no_device.
std::vector<BuildTask> build_tasks(const BuildOptions& options);

// Builds all; tells of each as soon as it and all before it are done.
std::vector<DeviceBuild> build_all(
    const std::vector<BuildTask>& tasks, const BuildOptions& options,
    const std::function<void(const BuildTask&, const DeviceBuild&)>& tell);

nlohmann::ordered_json json_of(const BuildTask& task, const DeviceBuild& build);

}  // namespace clora
