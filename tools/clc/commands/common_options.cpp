#include <CLI/CLI.hpp>

#include "tools/clc/commands/common_options.hpp"

#include "tools/command_line/shared_options.hpp"

namespace clora {

void add_output_options(CLI::App& command, ClcOptions& options) {
  add_output_flags(command, options.output);
}

void add_device_option(CLI::App& command, ClcOptions& options) {
  add_device_selector(command, options.device, "Building");
}

void add_build_options(CLI::App& command, ClcOptions& options) {
  command
      .add_option("-D", options.defines,
                  "Define a preprocessor macro; without -D and --options, the file's head lists "
                  "the option sets")
      ->type_name("NAME[=VALUE]")
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->group("Building");
  command.add_option("-I", options.include_folders, "Add a folder to the #include search path")
      ->type_name("FOLDER")
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->group("Building");
  command.add_option("--options", options.options, "Additional options for the OpenCL compiler")
      ->type_name("TEXT")
      ->group("Building");
}

std::vector<Device> selected_devices(const ClcOptions& options) {
  if (!options.device.empty()) return {select_device(options.device)};
  std::vector<Device> devices = list_devices();
  if (devices.empty()) select_device("");  // the error names the package that installs a driver
  return devices;
}

ContextConfig context_config(const ClcOptions& options, const KernelFile& file) {
  ContextConfig config = config_from_environment();
  if (!options.device.empty()) config.device = options.device;
  config.kernel_folders = file.folders;
  config.cache_folder.clear();
  config.self_test = false;
  config.capture.reset();  // capturing applies to the program under inspection
  return config;
}

bool says_how_to_build(const ClcOptions& options) {
  return !options.defines.empty() || !options.options.empty();
}

std::string given_options(const ClcOptions& options) {
  std::string text = options_of_words(options.defines);
  if (!options.options.empty()) text += (text.empty() ? "" : " ") + options.options;
  return text;
}

std::vector<std::string> option_sets(const ClcOptions& options, const KernelFile& file,
                                     const Device& device) {
  if (says_how_to_build(options)) return {given_options(options)};
  if (file.head.builds.empty()) return {""};
  std::vector<std::string> sets;
  for (const BuildSet& set : file.head.builds) {
    if (is_meant_for(set, device)) sets.push_back(set.options);
  }
  return sets;
}

std::vector<BuildSet> every_build_set(const ClcOptions& options, const KernelFile& file) {
  if (says_how_to_build(options)) return {{.devices = {}, .options = given_options(options)}};
  return file.head.builds;
}

}  // namespace clora
