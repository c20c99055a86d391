#include <CLI/CLI.hpp>

#include "tools/command_line/shared_options.hpp"

namespace clora {

void add_output_flags(CLI::App& command, OutputOptions& output) {
  command
      .add_flag("--json", output.json, "Print machine-readable lines on stdout, messages on stderr")
      ->group("Output");
  command.add_flag("--quiet", output.quiet, "Print only results, warnings and errors")
      ->group("Output");
  command.add_flag("--verbose", output.verbose, "Print more details on stderr")->group("Output");
}

void add_device_selector(CLI::App& command, std::string& device, const std::string& group) {
  command
      .add_option(
          "--device", device,
          "OpenCL device: index, part of its name, cpu, gpu or gpu:N from gpu:0 on (default: the "
          "first GPU, else the first device)")
      ->type_name("DEVICE")
      ->envname("CLORA_DEVICE")
      ->group(group);
}

}  // namespace clora
