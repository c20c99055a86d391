#include "tools/clc/compile/device_build.hpp"

#include <CLI/CLI.hpp>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "clora/runtime/files/file.hpp"
#include "clora/runtime/files/json.hpp"
#include "runtime/fail.hpp"
#include "tools/clc/commands/common_options.hpp"
#include "tools/command_line/process.hpp"

namespace clora {
namespace {

using Json = nlohmann::json;

constexpr const char* kCommand = "build-here";
// Separates the report from output of the driver.
constexpr const char* kMark = "\nclc report: ";

Json json_of(const KernelReport& kernel) {
  Json arguments = Json::array();
  for (const KernelArgument& each : kernel.arguments) {
    arguments.push_back({{"name", each.name},
                         {"type", each.type},
                         {"space", static_cast<int>(each.space)},
                         {"read_only", each.read_only}});
  }
  return {{"name", kernel.name},
          {"arguments", arguments},
          {"private_bytes", kernel.private_bytes},
          {"local_bytes", kernel.local_bytes},
          {"max_group", kernel.max_group},
          {"preferred_multiple", kernel.preferred_multiple},
          {"required_group", kernel.required_group}};
}

KernelReport kernel_of(const Json& json) {
  KernelReport kernel{.name = json.at("name"),
                      .arguments = {},
                      .private_bytes = json.at("private_bytes"),
                      .local_bytes = json.at("local_bytes"),
                      .max_group = json.at("max_group"),
                      .preferred_multiple = json.at("preferred_multiple"),
                      .required_group = json.at("required_group")};
  for (const Json& each : json.at("arguments")) {
    kernel.arguments.push_back({.name = each.at("name"),
                                .type = each.at("type"),
                                .space = static_cast<KernelArgument::Space>(each.at("space")),
                                .read_only = each.at("read_only")});
  }
  return kernel;
}

// Runs in the child process.
int build_here(const DeviceBuildRequest& request) {
  const KernelFile file = open_kernel_file(request.file, request.include_folders);
  ClcOptions options;
  options.device = std::to_string(request.device);
  const Context context(context_config(options, file));
  const ProgramReport report =
      report_on_program(context, file.text, file.name, request.options, KernelWarnings::reported);
  if (!request.binary.empty()) write_file_atomically(request.binary, report.binary);
  Json kernels = Json::array();
  for (const KernelReport& kernel : report.kernels) kernels.push_back(json_of(kernel));
  const Json line{{"built", report.built},
                  {"log", report.log},
                  {"seconds", report.seconds},
                  {"kernels", kernels}};
  std::cout << kMark << json_text(line) << std::endl;
  return 0;
}

// Disables the driver's own cache, which would hide the build time and the log.
std::map<std::string, std::string> environment_of(const DeviceBuildRequest& request) {
  std::map<std::string, std::string> environment{{"CUDA_CACHE_DISABLE", "1"},
                                                 {"NEO_CACHE_PERSISTENT", "0"}};
  if (request.pocl_cache.empty()) {
    environment["POCL_KERNEL_CACHE"] = "0";
  } else {
    environment["POCL_CACHE_DIR"] = request.pocl_cache.string();
  }
  return environment;
}

std::vector<std::string> command_of(const DeviceBuildRequest& request) {
  std::vector<std::string> command{"/proc/self/exe", kCommand, request.file,
                                   fmt::format("--device={}", request.device)};
  for (const auto& folder : request.include_folders) command.push_back("-I" + folder.string());
  if (!request.options.empty()) command.push_back("--options=" + request.options);
  if (!request.binary.empty()) command.push_back("--binary=" + request.binary.string());
  return command;
}

DeviceBuild outcome_of(const Json& line) {
  DeviceBuild outcome;
  outcome.words = line.at("log");
  outcome.diagnostics = diagnostics_of(outcome.words);
  outcome.seconds = line.at("seconds");
  for (const Json& each : line.at("kernels")) outcome.kernels.push_back(kernel_of(each));
  if (!line.at("built").get<bool>()) outcome.end = DeviceBuild::End::refused;
  return outcome;
}

// Parses the child's output after the mark; the driver may have written to the stream as well.
DeviceBuild outcome_of_text(std::string_view text) {
  try {
    return outcome_of(parse_json(text, "the report of a build in a child"));
  } catch (const Json::exception&) {
    fail(ErrorCode::build_failed,
         "the report of a build in a child must have built, log, seconds and kernels, got {}",
         text.substr(0, 200));
  }
}

}  // namespace

DeviceBuild build_in_child(const DeviceBuildRequest& request) {
  const ProcessResult done =
      run_process(command_of(request), request.limit_seconds, environment_of(request));
  const std::size_t mark = done.out.rfind(kMark);
  if (done.end == ProcessResult::End::exited && mark != std::string::npos) {
    return outcome_of_text(
        std::string_view(done.out).substr(mark + std::string_view(kMark).size()));
  }
  DeviceBuild outcome;
  outcome.seconds = done.seconds;
  const bool late = done.end == ProcessResult::End::out_of_time;
  outcome.end = late ? DeviceBuild::End::out_of_time : DeviceBuild::End::crashed;
  outcome.words = fmt::format("the driver's compiler {}", end_text(done));
  if (!done.err.empty()) outcome.words += "; its last output: " + done.err;
  return outcome;
}

void add_device_build_command(CLI::App& program, Action& action) {
  CLI::App* command = program.add_subcommand(kCommand, "Build for one device in this process");
  command->group("");  // not listed
  const auto request = std::make_shared<DeviceBuildRequest>();
  command->add_option("file", request->file)->required();
  command->add_option("--device", request->device);
  command->add_option("-I", request->include_folders)
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command->add_option("--options", request->options);
  command->add_option("--binary", request->binary);
  command->callback([request, &action] { action = [request] { return build_here(*request); }; });
}

std::string_view name_of(DeviceBuild::End end) {
  switch (end) {
    case DeviceBuild::End::built:
      return "built";
    case DeviceBuild::End::refused:
      return "refused";
    case DeviceBuild::End::crashed:
      return "crashed";
    default:
      return "out of time";
  }
}

}  // namespace clora
