#include "tools/clc/call/call_options.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cctype>
#include <cmath>

#include "tools/clc/call/captured_call.hpp"
#include "tools/clc/kernel_file/option_words.hpp"
#include "tools/command_line/config_file.hpp"

namespace clora {
namespace {

constexpr double kMaxItems = 9e15;  // doubles represent integers exactly below

// The numbers in -D NAME=NUMBER and -DNAME=NUMBER.
void add_defined_numbers(const std::string& build_options, Variables& variables) {
  for (const std::string& word : sorted_options(build_options)) {
    const std::size_t equals = word.find('=');
    if (!word.starts_with("-D") || equals == std::string::npos) continue;
    const auto bits = bits_of_text(ElementType::f64, word.substr(equals + 1));
    if (bits) variables[word.substr(2, equals - 2)] = value_of_bits(ElementType::f64, *bits);
  }
}

const GridRule* grid_rule(const KernelFile& file, const std::string& kernel) {
  for (const GridRule& rule : file.head.grids) {
    if (kernel.empty() || rule.kernel.empty() || rule.kernel == kernel) return &rule;
  }
  return nullptr;
}

const GridRule& required_grid_rule(const KernelFile& file, const std::string& kernel) {
  if (const GridRule* rule = grid_rule(file, kernel)) return *rule;
  throw UsageError(fmt::format(
      "--global is required: total work-items, as in --global 1024; or the head of {} declares how "
      "they follow from the arguments: //! clc: grid{} ceil(n/64)*64 by 64",
      file.name, kernel.empty() ? "" : " of " + kernel));
}

void put_grid(const GridRule& rule, const Variables& variables, KernelCallSpec& spec) {
  constexpr std::string_view what = "grid of the file's head";
  spec.global = parse_grid_size(rule.global, variables, what);
  if (!rule.local.empty()) spec.local = parse_grid_size(rule.local, variables, what);
}

// The kernel and grid, if the command line states them.
void put_call(const CallOptions& options, const Variables& variables, KernelCallSpec& spec) {
  if (!options.kernel.empty()) spec.kernel = options.kernel;
  if (!options.global.empty()) {
    spec.global = parse_grid_size(options.global, variables, "--global");
  }
  if (!options.local.empty()) spec.local = parse_grid_size(options.local, variables, "--local");
}

// The arguments under their names in the kernel, as expressions refer to them.
std::vector<CallArgument> named_arguments(const CapturedCall& captured,
                                          std::vector<CallArgument> arguments) {
  for (std::size_t i = 0; i < captured.arguments.size(); ++i) {
    if (!captured.arguments[i].name.empty()) arguments[i].name = captured.arguments[i].name;
  }
  return arguments;
}

KernelCallSpec captured_spec(const CallOptions& options, const KernelFile& file,
                             const std::string& build_options) {
  const CapturedCall captured = read_captured_call(options.file);
  KernelCallSpec spec = spec_of(captured, file);
  spec.options = build_options;
  for (const std::string& text : options.arguments) {
    override_argument(spec.arguments, captured, parse_argument(text));
  }
  const Variables variables =
      call_variables(build_options, named_arguments(captured, spec.arguments));
  const bool is_built_otherwise = sorted_options(build_options) != sorted_options(captured.options);
  const GridRule* rule = grid_rule(file, captured.kernel);
  if (is_built_otherwise && rule != nullptr) put_grid(*rule, variables, spec);
  put_call(options, variables, spec);
  return spec;
}

}  // namespace

void add_call_options(CLI::App& command, CallOptions& options) {
  command
      .add_option("file", options.file,
                  "A .cl file, the name of a built-in one, or the folder of a captured launch")
      ->type_name("FILE")
      ->required();
  command
      .add_option("--kernel", options.kernel,
                  "Name of the kernel (default: the only one in the file)")
      ->type_name("NAME")
      ->group("Call");
  command
      .add_option("--global", options.global,
                  "Total work-items per dimension; expressions of -D values and number arguments "
                  "(default: from the file's head)")
      ->type_name("X[,Y[,Z]]")
      ->group("Call");
  command
      .add_option("--local", options.local,
                  "Work-items per work-group (default: what the kernel requires, else up to 64)")
      ->type_name("X[,Y[,Z]]")
      ->group("Call");
  command
      .add_option("--arg", options.arguments,
                  "Argument, by name or by position from 0; 'clc run --help' lists the values")
      ->type_name("NAME=SPEC")
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->group("Call");
  command
      .add_option("--set", options.set, "Option set of the head to use, of those for this device")
      ->type_name("N")
      ->capture_default_str()
      ->group("Building");
  add_device_option(command, options.common);
  add_build_options(command, options.common);
  add_output_options(command, options.common);
}

std::string chosen_options(const CallOptions& options, const KernelFile& file,
                           const Device& device) {
  if (is_captured_call(options.file)) {
    return overridden_options(read_captured_call(options.file).options, options.common);
  }
  const std::vector<std::string> sets = option_sets(options.common, file, device);
  if (sets.empty()) {
    throw UsageError(
        fmt::format("{}: its head has options for other devices only, none for {}; give them with "
                    "-D or --options",
                    file.name, device.name));
  }
  if (options.set < 1 || static_cast<std::size_t>(options.set) > sets.size()) {
    throw UsageError(fmt::format("--set {}: {} has {} option sets for {}, counted from 1",
                                 options.set, file.name, sets.size(), device.name));
  }
  return sets[static_cast<std::size_t>(options.set) - 1];
}

KernelCallSpec call_spec(const CallOptions& options, const KernelFile& file,
                         const std::string& build_options) {
  if (is_captured_call(options.file)) return captured_spec(options, file, build_options);
  KernelCallSpec spec{.file = file,
                      .options = build_options,
                      .kernel = {},
                      .global = {},
                      .local = std::nullopt,
                      .arguments = {}};
  for (const std::string& text : options.arguments) spec.arguments.push_back(parse_argument(text));
  const Variables variables = call_variables(build_options, spec.arguments);
  if (options.global.empty()) put_grid(required_grid_rule(file, options.kernel), variables, spec);
  put_call(options, variables, spec);
  return spec;
}

KernelCallSpec call_spec(const CallOptions& options, const KernelFile& file, const Device& device) {
  return call_spec(options, file, chosen_options(options, file, device));
}

Variables call_variables(const std::string& build_options,
                         const std::vector<CallArgument>& arguments) {
  Variables variables;
  add_defined_numbers(build_options, variables);
  for (const CallArgument& argument : arguments) {
    const auto* number = std::get_if<ScalarSpec>(&argument.value);
    const bool is_named = std::isalpha(static_cast<unsigned char>(argument.name[0])) != 0;
    if (number == nullptr || number->values.size() != 1 || !is_named) continue;
    const auto bits = bits_of_text(ElementType::f64, number->values[0]);
    if (bits) variables[argument.name] = value_of_bits(ElementType::f64, *bits);
  }
  return variables;
}

GridSize parse_grid_size(const std::string& text, const Variables& variables,
                         std::string_view what) {
  const std::vector<std::string> parts = split_expressions(text);
  GridSize sizes{1, 1, 1};
  if (parts.size() > sizes.size()) {
    throw UsageError(fmt::format("{} '{}': must have one to three dimensions", what, text));
  }
  for (std::size_t d = 0; d < parts.size(); ++d) {
    const double value = value_of(parts[d], variables, what);
    if (!(value >= 1 && value < kMaxItems && value == std::floor(value))) {
      throw UsageError(fmt::format(
          "{} '{}': must be positive whole numbers, as in 1024 or 64,16; dimension {} is {}", what,
          text, d, value));
    }
    sizes.at(d) = static_cast<std::size_t>(value);
  }
  return sizes;
}

}  // namespace clora
