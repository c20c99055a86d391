// clc build: builds kernel files on the devices of this machine.
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>

#include "tools/clc/commands/commands.hpp"
#include "tools/clc/compile/build_tasks.hpp"

namespace clora {
namespace {

constexpr const char* kFooter = R"(Examples:
  clc build my_kernel.cl
  clc build my_kernel.cl -D TILE=32 -I include --device gpu
  clc build rms_norm.cl                 a built-in file, by its name
Without -D and --options, the file's head lists the option sets, one per line:
  //! clc: build X_TYPE={f32,bf16} GROUP=128
  //! clc: build on cpu: X_TYPE=f32 -cl-fast-relaxed-math
Each build runs in its own process, so a driver that crashes or hangs is reported as a finding.)";

// The poll interval for changed files.
constexpr auto kPollInterval = std::chrono::milliseconds(200);

std::string kernel_names(const DeviceBuild& build) {
  std::vector<std::string> names;
  for (const KernelReport& kernel : build.kernels) names.push_back(kernel.name);
  return names.empty() ? "no kernels" : fmt::format("{}", fmt::join(names, ", "));
}

void print(Output& output, const BuildTask& task, const DeviceBuild& build) {
  const std::string what = fmt::format("{}{}{} on {}", task.path, task.options.empty() ? "" : " ",
                                       task.options, task.device.name);
  if (build.end == DeviceBuild::End::built) {
    output.result("{}: built in {:.2f} s: {}", what, build.seconds, kernel_names(build));
  } else {
    output.result("{}: {}", what, name_of(build.end));
    if (build.diagnostics.empty()) output.result("{}", build.words);
  }
  for (const Diagnostic& each : build.diagnostics) output.result("{}", readable(each, *task.file));
}

int build_once(const BuildOptions& options, Output& output) {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  const std::vector<BuildTask> tasks = build_tasks(options);
  if (tasks.empty()) {
    output.warning("no option set of the files is meant for a device on this machine");
  }
  bool well = true;
  build_all(tasks, options, [&](const BuildTask& task, const DeviceBuild& build) {
    print(output, task, build);
    all.push_back(json_of(task, build));
    well = well && build.end == DeviceBuild::End::built;
  });
  output.object({{"builds", all}});
  return well ? 0 : 1;
}

// The texts of all files including their includes, to detect changes; for an unreadable file, the
// error.
std::string texts_of(const BuildOptions& options) {
  std::string texts;
  for (const std::string& path : options.files) {
    try {
      texts += open_kernel_file(path, options.common.include_folders).text;
    } catch (const std::exception& error) {
      texts += error.what();
    }
  }
  return texts;
}

[[noreturn]] void watch(const BuildOptions& options, Output& output) {
  for (std::string seen;;) {
    const std::string texts = texts_of(options);
    if (texts != seen) {
      seen = texts;
      try {
        build_once(options, output);
      } catch (const std::exception& error) {  // an include may not exist yet
        output.warning("{}", error.what());
      }
      output.info("Watching for changes; press Ctrl-C to stop.");
    }
    std::this_thread::sleep_for(kPollInterval);
  }
}

}  // namespace

void add_build_command(CLI::App& program, Action& action) {
  CLI::App* command = program.add_subcommand("build", "Build kernel files on every device");
  const auto options = std::make_shared<BuildOptions>();
  const auto watches = std::make_shared<bool>(false);
  command->add_option("file", options->files, "OpenCL C files, or names of built-in ones")
      ->required()
      ->type_name("FILE...");
  command->add_flag("--watch", *watches, "Rebuild when a file or an include changes");
  add_build_task_options(*command, *options);
  command->footer(kFooter);
  command->callback([options, watches, &action] {
    action = [options, watches] {
      Output output(options->common.output);
      if (*watches) watch(*options, output);
      return build_once(*options, output);
    };
  });
}

}  // namespace clora
