#include "tools/clc/call_options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "tools/clc/captured_call.hpp"
#include "tools/command_line/config_file.hpp"

namespace clora {
namespace {

// The options of the set that is asked for, from 1.
std::string chosen_set(const CallOptions& options, const KernelFile& file, const Device& device) {
  const std::vector<std::string> sets = option_sets(options.common, file, device);
  if (sets.empty()) {
    throw UsageError(
        fmt::format("{}: its head has options for other devices only, none for {}; give them by -D "
                    "or --options",
                    file.name, device.name));
  }
  if (options.set < 1 || static_cast<std::size_t>(options.set) > sets.size()) {
    throw UsageError(fmt::format("--set {}: {} has {} sets of options for {}, counted from 1",
                                 options.set, file.name, sets.size(), device.name));
  }
  return sets[static_cast<std::size_t>(options.set) - 1];
}

// Kernel and grid, where the command line names them.
void put_call(const CallOptions& options, KernelCallSpec& spec) {
  if (!options.kernel.empty()) spec.kernel = options.kernel;
  if (!options.global.empty()) spec.global = parse_grid_size(options.global, "--global");
  if (!options.local.empty()) spec.local = parse_grid_size(options.local, "--local");
}

KernelCallSpec captured_spec(const CallOptions& options, const KernelFile& file) {
  const CapturedCall captured = read_captured_call(options.file);
  KernelCallSpec spec = spec_of(captured, file);
  spec.options = overridden_options(captured.options, options.common);
  put_call(options, spec);
  for (const std::string& text : options.arguments) {
    override_argument(spec.arguments, captured, parse_argument(text));
  }
  return spec;
}

}  // namespace

void add_call_options(CLI::App& command, CallOptions& options) {
  command
      .add_option("file", options.file,
                  "A .cl file, the name of a built-in one, or the folder of a captured launch")
      ->type_name("FILE")
      ->required();
  command.add_option("--kernel", options.kernel, "The kernel (default: the only one of the file)")
      ->type_name("NAME")
      ->group("Call");
  command.add_option("--global", options.global, "Work-items in all, for each dimension")
      ->type_name("X[,Y[,Z]]")
      ->group("Call");
  command
      .add_option("--local", options.local,
                  "Work-items in a work-group (default: what the kernel requires, else up to 64)")
      ->type_name("X[,Y[,Z]]")
      ->group("Call");
  command
      .add_option("--arg", options.arguments,
                  "An argument, by its name or its position from 0; the specs are below")
      ->type_name("NAME=SPEC")
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->group("Call");
  command.add_option("--set", options.set, "Which of the head's sets of options for this device")
      ->type_name("N")
      ->capture_default_str()
      ->group("Building");
  add_device_option(command, options.common);
  add_build_options(command, options.common);
  add_output_options(command, options.common);
}

KernelCallSpec call_spec(const CallOptions& options, const KernelFile& file, const Device& device) {
  if (is_captured_call(options.file)) return captured_spec(options, file);
  if (options.global.empty()) {
    throw UsageError(fmt::format(
        "--global is missing: how many work-items run {}, as in --global 1024", file.name));
  }
  KernelCallSpec spec{.file = file,
                      .options = chosen_set(options, file, device),
                      .kernel = {},
                      .local = {},
                      .arguments = {}};
  put_call(options, spec);
  for (const std::string& text : options.arguments) spec.arguments.push_back(parse_argument(text));
  return spec;
}

GridSize parse_grid_size(const std::string& text, std::string_view option) {
  GridSize sizes{1, 1, 1};
  const char* at = text.data();
  const char* const end = at + text.size();
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    const auto [stop, error] = std::from_chars(at, end, sizes.at(d));
    if (error != std::errc() || sizes.at(d) == 0) break;
    if (stop == end) return sizes;
    if (*stop != ',') break;
    at = stop + 1;
  }
  throw UsageError(
      fmt::format("{} '{}': one to three positive numbers are wanted, as in 1024 or "
                  "64,16",
                  option, text));
}

}  // namespace clora
