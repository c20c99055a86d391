#include "tools/clc/reference_options.hpp"

#include <fmt/format.h>

#include <optional>

#include "tools/command_line/config_file.hpp"

namespace clora {

NamedFile named_file(const std::string& text, std::string_view option) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0 || equals + 1 == text.size()) {
    throw UsageError(fmt::format("{} '{}': NAME=FILE is wanted, as in y=out.npy", option, text));
  }
  return {text.substr(0, equals), text.substr(equals + 1)};
}

void add_compare_option(CLI::App& command, std::vector<std::string>& compared, const char* help) {
  add_list_option(command, "--compare", compared, help, "NAME=FILE");
}

void add_tolerance_options(CLI::App& command, Tolerance& tolerance) {
  const auto add = [&](const char* name, std::optional<double>& value, const char* help) {
    command.add_option(name, value, help)
        ->type_name("X")
        ->check(CLI::NonNegativeNumber)
        ->group("Results");
  };
  add("--atol", tolerance.atol, "Good is |got - wanted| <= atol + rtol * |wanted|");
  add("--rtol", tolerance.rtol, "See --atol");
  add("--ulp", tolerance.ulp, "Good, too, is so many units in the last place apart");
}

CLI::Option* add_list_option(CLI::App& command, const char* name, std::vector<std::string>& values,
                             const char* help, const char* type) {
  return command.add_option(name, values, help)
      ->type_name(type)
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->group("Results");
}

}  // namespace clora
