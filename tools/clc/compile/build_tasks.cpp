#include "tools/clc/compile/build_tasks.hpp"
#include "tools/command_line/number_options.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

namespace clora {
namespace {

// The results of the workers, stored in any order.
class Outcomes {
 public:
  explicit Outcomes(std::size_t count) : all_(count) {}

  void put(std::size_t i, DeviceBuild build) {
    const std::lock_guard lock(mutex_);
    all_[i] = std::move(build);
    put_.notify_all();
  }
  void put(std::exception_ptr error) {
    const std::lock_guard lock(mutex_);
    error_ = std::move(error);
    put_.notify_all();
  }
  // Waits for the i-th result. Errors: the error of its worker.
  DeviceBuild take(std::size_t i) {
    std::unique_lock lock(mutex_);
    put_.wait(lock, [&] { return all_[i].has_value() || error_ != nullptr; });
    if (!all_[i]) std::rethrow_exception(error_);
    return *all_[i];
  }

 private:
  std::mutex mutex_;
  std::condition_variable put_;
  std::vector<std::optional<DeviceBuild>> all_;
  std::exception_ptr error_;
};

DeviceBuild build(const BuildTask& task, const BuildOptions& options) {
  return build_in_child({.file = task.path,
                         .include_folders = options.common.include_folders,
                         .options = task.options,
                         .device = task.device.index,
                         .limit_seconds = options.limit_seconds,
                         .binary = {}});
}

}  // namespace

void add_build_task_options(CLI::App& command, BuildOptions& options) {
  add_device_option(command, options.common);
  command.get_option("--device")
      ->description("OpenCL device: index, part of its name, cpu or gpu (default: all)");
  add_build_options(command, options.common);
  command.add_option("--limit", options.limit_seconds, "Time limit per build, in seconds")
      ->transform(NumberAbove(0, kMaxSeconds))
      ->capture_default_str()
      ->type_name("SECONDS")
      ->group("Building");
  command.add_option("--jobs", options.jobs, "Number of parallel builds (default: one per core)")
      ->transform(Integer(1, 10000))
      ->type_name("COUNT")
      ->group("Building");
  add_output_options(command, options.common);
}

std::vector<BuildTask> build_tasks(const BuildOptions& options) {
  const std::vector<Device> devices = selected_devices(options.common);
  std::vector<BuildTask> tasks;
  for (const std::string& path : options.files) {
    const auto file =
        std::make_shared<const KernelFile>(open_kernel_file(path, options.common.include_folders));
    for (const Device& device : devices) {
      for (const std::string& set : option_sets(options.common, *file, device)) {
        tasks.push_back({path, file, set, device});
      }
    }
  }
  return tasks;
}

std::vector<DeviceBuild> build_all(
    const std::vector<BuildTask>& tasks, const BuildOptions& options,
    const std::function<void(const BuildTask&, const DeviceBuild&)>& on_build) {
  Outcomes outcomes(tasks.size());
  std::atomic<std::size_t> next = 0;
  const auto work = [&] {
    try {
      for (std::size_t i; (i = next++) < tasks.size();) outcomes.put(i, build(tasks[i], options));
    } catch (...) {
      next = tasks.size();
      outcomes.put(std::current_exception());
    }
  };
  const unsigned cores = std::max(1U, std::thread::hardware_concurrency());
  const std::size_t jobs = options.jobs > 0 ? static_cast<std::size_t>(options.jobs) : cores;
  std::vector<std::jthread> workers;
  for (std::size_t i = 0; i < std::min(jobs, tasks.size()); ++i) workers.emplace_back(work);
  std::vector<DeviceBuild> builds;
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    builds.push_back(outcomes.take(i));
    on_build(tasks[i], builds.back());
  }
  return builds;
}

nlohmann::ordered_json json_of(const BuildTask& task, const DeviceBuild& build) {
  nlohmann::ordered_json diagnostics = nlohmann::ordered_json::array();
  for (const Diagnostic& each : build.diagnostics) {
    diagnostics.push_back({{"file", each.file},
                           {"line", each.line},
                           {"column", each.column},
                           {"severity", each.severity},
                           {"text", each.text}});
  }
  nlohmann::ordered_json kernels = nlohmann::ordered_json::array();
  for (const KernelReport& kernel : build.kernels) kernels.push_back(kernel.name);
  return {{"file", task.path},          {"options", task.options},
          {"device", task.device.name}, {"outcome", name_of(build.end)},
          {"seconds", build.seconds},   {"kernels", kernels},
          {"diagnostics", diagnostics}, {"words", build.words}};
}

}  // namespace clora
