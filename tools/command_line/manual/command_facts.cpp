#include "tools/command_line/manual/command_facts.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "tools/command_line/config_file.hpp"

namespace clora {
namespace {

// CLI11 describes the type and each check of a value as "NAME:CHECK:CHECK". A check of words is
// "{auto,f32,bf16}".
std::vector<std::string> type_parts(const CLI::Option& option) {
  std::vector<std::string> parts;
  std::string rest = option.get_type_name();
  while (true) {
    const std::size_t colon = rest.find(':');
    parts.push_back(rest.substr(0, colon));
    if (colon == std::string::npos) return parts;
    rest.erase(0, colon + 1);
  }
}

std::vector<std::string> words_of(const std::string& check) {
  std::vector<std::string> words;
  if (check.size() < 2 || check.front() != '{' || check.back() != '}') return words;
  std::string rest = check.substr(1, check.size() - 2);
  while (true) {
    const std::size_t comma = rest.find(',');
    words.push_back(rest.substr(0, comma));
    if (comma == std::string::npos) return words;
    rest.erase(0, comma + 1);
  }
}

bool has_part(const std::string& name, std::initializer_list<const char*> parts) {
  return std::ranges::any_of(
      parts, [&](const char* part) { return name.find(part) != std::string::npos; });
}

ValueKind kind_named(const std::string& name) {
  if (has_part(name, {"FILE", "SVG"})) return ValueKind::file;
  if (has_part(name, {"DIR", "FOLDER"})) return ValueKind::folder;
  return has_part(name, {"PATH"}) ? ValueKind::path : ValueKind::text;
}

// Arguments without a type of their own are paths, unless their name says what else they are.
ValueKind kind_of_argument(const std::string& name, ValueKind by_type) {
  if (by_type != ValueKind::text || has_part(name, {"TEXT", "NAME"})) return by_type;
  const ValueKind by_name = kind_named(name);
  return by_name == ValueKind::text ? ValueKind::path : by_name;
}

// CLI11's own names of types are those of C++. The brackets of "[SVG]", which mark a value that may
// be left out, are written by who lists the option.
std::string value_name(const std::string& type) {
  if (type.starts_with('[') && type.ends_with(']')) return type.substr(1, type.size() - 2);
  if (type == "UINT") return "INT";
  return type == "BOOLEAN" ? "BOOL" : type;
}

void describe_value(const CLI::Option& option, OptionFacts& facts) {
  const std::vector<std::string> parts = type_parts(option);
  const bool flag = option.get_expected_max() == 0;
  facts.value = value_name(parts.front());
  facts.kind = kind_named(facts.value);
  for (std::size_t i = 1; i < parts.size(); ++i) {
    const std::vector<std::string> words = words_of(parts[i]);
    if (!words.empty()) {
      facts.kind = ValueKind::word;
      facts.words = words;
    } else if (parts[i] == "FILE") {  // CLI::ExistingFile
      facts.kind = ValueKind::file;
    } else if (parts[i] != facts.value) {
      facts.range = parts[i];
    }
  }
  if (facts.kind == ValueKind::word && (facts.value.empty() || facts.value == "TEXT")) {
    facts.value = "WORD";
  }
  facts.value_attached = flag && facts.kind == ValueKind::word;
  facts.value_optional = facts.value_attached || (!flag && option.get_items_expected_min() == 0);
  if (flag && facts.kind != ValueKind::word) {
    facts.value.clear();
    facts.kind = ValueKind::none;
  }
}

OptionFacts option_facts(const CLI::Option& option) {
  OptionFacts facts;
  for (const std::string& name : option.get_snames()) facts.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) facts.names.push_back("--" + name);
  describe_value(option, facts);
  facts.required = option.get_required();
  facts.repeats = facts.kind != ValueKind::none && option.get_items_expected_max() > 1;
  facts.description = option.get_description();
  facts.default_value = option.get_default_str();
  facts.variable = option.get_envname();
  facts.group = option.get_group();
  return facts;
}

OptionFacts argument_facts(const CLI::Option& option) {
  OptionFacts facts = option_facts(option);
  facts.names.clear();
  const std::string name = option.get_name(true);
  facts.kind = kind_of_argument(name, facts.kind);
  facts.value = name;
  return facts;
}

}  // namespace

CommandFacts command_facts(const CLI::App& command) {
  CommandFacts facts{.word = command.get_name(),
                     .full_name = full_name(command),
                     .description = command.get_description(),
                     .footer = command.get_footer()};
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_group().empty()) continue;  // not listed
    if (option->get_positional()) facts.arguments.push_back(argument_facts(*option));
    if (option->nonpositional()) facts.options.push_back(option_facts(*option));
  }
  for (const CLI::App* below : command.get_subcommands({})) {
    if (!below->get_group().empty()) facts.commands.push_back(command_facts(*below));
  }
  return facts;
}

std::vector<const CommandFacts*> all_commands(const CommandFacts& program) {
  std::vector<const CommandFacts*> all{&program};
  for (const CommandFacts& command : program.commands) {
    const std::vector<const CommandFacts*> below = all_commands(command);
    all.insert(all.end(), below.begin(), below.end());
  }
  return all;
}

}  // namespace clora
