#include "tools/command_line/config_file.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>

#include "clora/runtime/files/json.hpp"
#include "tools/command_line/suggestion.hpp"
#include "tools/command_line/toml_options.hpp"

namespace clora {
namespace {

constexpr std::size_t kMaxConfigBytes = 1 << 20U;  // for reading; the parser's limit is lower

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::ranges::find(names, name) != names.end();
}

std::string read_text(const std::filesystem::path& file) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(file, error)) {
    throw UsageError(fmt::format("--config: file '{}' does not exist", file.string()));
  }
  std::ifstream stream(file, std::ios::binary);
  std::string text(kMaxConfigBytes, '\0');
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (!stream.is_open() || stream.bad()) {
    throw UsageError(fmt::format("--config: '{}' cannot be read", file.string()));
  }
  text.resize(static_cast<std::size_t>(stream.gcount()));
  return text;
}

// Sections of the program's other commands are allowed in the file.
void require_known_section(const TomlOption& item, const CLI::App& command,
                           std::string_view source) {
  if (item.section.empty()) return;
  const CLI::App* program = command.get_parent();
  std::vector<std::string> names{command.get_name()};
  if (program != nullptr) {
    for (const CLI::App* other : program->get_subcommands({})) names.push_back(other->get_name());
  }
  if (contains(names, item.section)) return;
  const std::string meant = suggestion_for(item.section, names);
  throw UsageError(fmt::format("'{}': [{}] is not a command{}", source, item.section,
                               meant.empty() ? "" : fmt::format("; did you mean [{}]?", meant)));
}

// Whether the item applies to the command: at the top level, or in the command's section.
bool concerns(const TomlOption& item, const CLI::App& command) {
  return !item.name.empty() && (item.section.empty() || item.section == command.get_name());
}

const CLI::Option& option_for(const TomlOption& item, const CLI::App& command,
                              std::string_view source) {
  const CLI::Option* option = command.get_option_no_throw("--" + item.name);
  if (option == nullptr) {
    throw UsageError(
        fmt::format("'{}': {}", source, unknown_option_message("--" + item.name, command)));
  }
  if (item.is_array && option->get_items_expected_max() <= 1) {
    throw UsageError(fmt::format("'{}': {} must be one value, got an array of {}", source,
                                 item.name, item.values.size()));
  }
  return *option;
}

void append(const CLI::Option& option, const TomlOption& item,
            std::vector<std::string>& arguments) {
  const bool flag = option.get_expected_max() == 0;
  for (const std::string& value : item.values) {
    if (flag || !value.empty()) {
      arguments.push_back(fmt::format("--{}={}", item.name, value));
    } else {  // "--key=" would consume the next argument as its value
      arguments.push_back("--" + item.name);
      arguments.emplace_back();
    }
  }
}

// Whether the option was given in another spelling, as --no-shuffle for --shuffle.
bool was_given(const CLI::Option& option, const std::vector<std::string>& given) {
  return std::ranges::any_of(option.get_lnames(),
                             [&](const std::string& name) { return contains(given, name); });
}

// Whether an option was given that excludes this one, as --steps excludes --epochs.
bool is_excluded(const CLI::Option& option, const std::vector<std::string>& given) {
  return std::ranges::any_of(option.get_excludes(),
                             [&](const CLI::Option* other) { return was_given(*other, given); });
}

bool is_excluded(const CLI::Option& option) {
  return option.count() == 0 && std::ranges::any_of(option.get_excludes(), &CLI::Option::count);
}

// Whether the value reads back as the same text when it is written as a number.
bool is_number(const std::string& value) {
  const char* const end = value.data() + value.size();
  std::int64_t integer = 0;
  if (std::from_chars(value.data(), end, integer).ptr == end)
    return std::to_string(integer) == value;
  double number = 0;
  const auto [stop, error] = std::from_chars(value.data(), end, number);
  return error == std::errc() && stop == end && std::isfinite(number) &&
         fmt::format("{}", number) == value;
}

std::string flag_text(const CLI::Option& option) {
  const std::string& word =
      option.results().empty() ? option.get_default_str() : option.results().back();
  return word == "true" || word == "1" ? "true" : "false";
}

std::string value_text(const CLI::Option& option) {
  if (option.get_expected_max() == 0) return flag_text(option);
  const auto& results = option.results();
  if (results.empty()) {
    const std::string value = option.get_default_str();
    return value.empty() ? std::string() : toml_value(value);
  }
  if (option.get_items_expected_max() <= 1) return toml_value(results.back());
  std::string list;
  for (const std::string& value : results) {
    list += fmt::format("{}{}", list.empty() ? "" : ", ", toml_value(value));
  }
  return "[" + list + "]";
}

}  // namespace

std::string toml_value(const std::string& value) {
  if (value == "true" || value == "false" || is_number(value)) return value;
  std::string text = json_text(nlohmann::json(value));  // TOML strings escape like JSON's
  for (std::size_t at; (at = text.find('\x7f')) != std::string::npos;) {
    text.replace(at, 1, "\\u007f");  // escaped in TOML only
  }
  return text;
}

std::vector<std::string> option_names(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    const auto& long_names = option->get_lnames();
    names.insert(names.end(), long_names.begin(), long_names.end());
  }
  return names;
}

std::string full_name(const CLI::App& command) {
  const CLI::App* parent = command.get_parent();
  return parent == nullptr ? command.get_name() : full_name(*parent) + ' ' + command.get_name();
}

std::string unknown_option_message(const std::string& written, const CLI::App& command) {
  const std::string name = written.substr(std::min(written.find_first_not_of('-'), written.size()));
  const std::string meant = suggestion_for(name, option_names(command));
  return meant.empty()
             ? fmt::format("unknown option {}; '{} --help' lists them", written, full_name(command))
             : fmt::format("unknown option {}; did you mean --{}?", written, meant);
}

std::vector<std::string> arguments_from_config_text(std::string_view text, std::string_view source,
                                                    const CLI::App& command,
                                                    const std::vector<std::string>& given) {
  std::vector<std::string> arguments;
  for (const TomlOption& item : parse_toml_options(text, source)) {
    require_known_section(item, command, source);
    if (!concerns(item, command)) continue;
    const CLI::Option& option = option_for(item, command, source);
    if (!was_given(option, given) && !is_excluded(option, given)) append(option, item, arguments);
  }
  return arguments;
}

std::vector<std::string> arguments_from_config(const std::filesystem::path& file,
                                               const CLI::App& command,
                                               const std::vector<std::string>& given) {
  return arguments_from_config_text(read_text(file), file.string(), command, given);
}

std::string config_text(const CLI::App& command, const std::vector<std::string>& left_out) {
  std::string text = fmt::format("# clora {0} --config THIS-FILE\n", command.get_name());
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_lnames().empty()) continue;
    const std::string& name = option->get_lnames().front();
    const bool wanted = !contains(left_out, name) && !is_excluded(*option);
    const std::string value = wanted ? value_text(*option) : std::string();
    if (!value.empty()) {
      text += fmt::format("\n# {}\n{} = {}\n", option->get_description(), name, value);
    }
  }
  return text;
}

}  // namespace clora
