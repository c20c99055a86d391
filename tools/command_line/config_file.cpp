#include "tools/command_line/config_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tools/command_line/suggestion.hpp"

namespace clora {
namespace {

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::ranges::find(names, name) != names.end();
}

std::vector<CLI::ConfigItem> read_items(const std::filesystem::path& file) {
  if (!std::filesystem::is_regular_file(file)) {
    throw UsageError(fmt::format("--config: there is no file '{}'", file.string()));
  }
  try {
    return CLI::ConfigTOML().from_file(file.string());
  } catch (const CLI::Error& error) {
    throw UsageError(fmt::format("--config: '{}': {}", file.string(), error.what()));
  }
}

// CLI11 marks where sections begin and end with items of these names.
bool is_section_mark(const CLI::ConfigItem& item) { return item.name == "++" || item.name == "--"; }

// Whether the item is meant for the command: at the top, or in its own section.
bool concerns(const CLI::ConfigItem& item, const CLI::App& command) {
  if (is_section_mark(item)) return false;
  return item.parents.empty() ||
         (item.parents.size() == 1 && item.parents.front() == command.get_name());
}

void append(const CLI::Option& option, const CLI::ConfigItem& item,
            std::vector<std::string>& arguments) {
  const bool flag = option.get_expected_max() == 0;
  for (const std::string& value : item.inputs) {
    if (flag || !value.empty()) {
      arguments.push_back(fmt::format("--{}={}", item.name, value));
    } else {  // "--key=" would take the next argument for its value
      arguments.push_back("--" + item.name);
      arguments.emplace_back();
    }
  }
}

// Another spelling of an option that was given: --no-shuffle for --shuffle.
bool was_given(const CLI::Option& option, const std::vector<std::string>& given) {
  return std::ranges::any_of(option.get_lnames(),
                             [&](const std::string& name) { return contains(given, name); });
}

// Another option was given that excludes this one: --steps and --epochs.
bool is_excluded(const CLI::Option& option, const std::vector<std::string>& given) {
  return std::ranges::any_of(option.get_excludes(),
                             [&](const CLI::Option* other) { return was_given(*other, given); });
}

bool is_excluded(const CLI::Option& option) {
  return option.count() == 0 && std::ranges::any_of(option.get_excludes(), &CLI::Option::count);
}

std::string toml_text(const std::string& value) {
  const auto parsed = nlohmann::json::parse(value, nullptr, false);
  if (parsed.is_number() || parsed.is_boolean()) return value;
  return nlohmann::json(value).dump();  // TOML's basic strings escape as JSON's do
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
    return value.empty() ? std::string() : toml_text(value);
  }
  if (option.get_items_expected_max() <= 1) return toml_text(results.back());
  std::string list;
  for (const std::string& value : results) {
    list += fmt::format("{}{}", list.empty() ? "" : ", ", toml_text(value));
  }
  return "[" + list + "]";
}

}  // namespace

std::vector<std::string> option_names(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    const auto& long_names = option->get_lnames();
    names.insert(names.end(), long_names.begin(), long_names.end());
  }
  return names;
}

std::string unknown_option_message(const std::string& name, const CLI::App& command) {
  const std::string meant = suggestion_for(name, option_names(command));
  return meant.empty() ? fmt::format("unknown option --{}; 'clora {} --help' lists them", name,
                                     command.get_name())
                       : fmt::format("unknown option --{}; did you mean --{}?", name, meant);
}

std::vector<std::string> arguments_from_config(const std::filesystem::path& file,
                                               const CLI::App& command,
                                               const std::vector<std::string>& given) {
  std::vector<std::string> arguments;
  for (const CLI::ConfigItem& item : read_items(file)) {
    if (!concerns(item, command)) continue;
    const CLI::Option* option = command.get_option_no_throw("--" + item.name);
    if (option == nullptr) {
      throw UsageError(
          fmt::format("'{}': {}", file.string(), unknown_option_message(item.name, command)));
    }
    if (!was_given(*option, given) && !is_excluded(*option, given))
      append(*option, item, arguments);
  }
  return arguments;
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
