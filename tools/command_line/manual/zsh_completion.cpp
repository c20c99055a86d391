#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>

#include "tools/command_line/manual/completion.hpp"
#include "tools/command_line/replace_all.hpp"

namespace clora {
namespace {

// `text` inside '[...]' or between ':' of a specification for _arguments, which is in single
// quotes.
std::string escaped(std::string text) {
  replace_all(text, "\\", "\\\\");
  for (const char* special : {"[", "]", ":"})
    replace_all(text, special, std::string("\\") + special);
  replace_all(text, "'", R"('\'')");
  return text;
}

std::string action_of(const OptionFacts& option) {
  switch (option.kind) {
    case ValueKind::word:
      return fmt::format("({})", fmt::join(option.words, " "));
    case ValueKind::file:
    case ValueKind::path:
      return "_files";
    case ValueKind::folder:
      return "_files -/";
    default:
      return " ";  // nothing is offered
  }
}

// What follows a name: "=" if the value may be the next word or follow '=', "=-" if it must.
std::string separator_of(const OptionFacts& option, const std::string& name) {
  if (option.kind == ValueKind::none) return "";
  if (option.value_attached) return "=-";
  return name.starts_with("--") ? "=" : "+";
}

// One specification for each name. The names of an option that is given once exclude each other.
std::string option_specs(const OptionFacts& option) {
  std::string before;
  if (option.repeats) {
    before = "*";
  } else if (option.names.size() > 1) {
    before = fmt::format("({})", fmt::join(option.names, " "));
  }
  std::string value;
  if (option.kind != ValueKind::none) {
    value = fmt::format("{}{}:{}", option.value_optional ? "::" : ":", escaped(option.value),
                        action_of(option));
  }
  std::string text;
  for (const std::string& name : option.names) {
    text += fmt::format(" \\\n    '{}{}{}[{}]{}'", before, name, separator_of(option, name),
                        escaped(option.description), value);
  }
  return text;
}

std::string argument_spec(const OptionFacts& argument) {
  return fmt::format(" \\\n    '{}:{}:{}'",
                     argument.repeats    ? "*"
                     : argument.required ? ""
                                         : ":",
                     escaped(argument.value), action_of(argument));
}

std::string function_name(const CommandFacts& command) {
  std::string name = "_" + command.full_name;
  replace_all(name, " ", "_");
  return name;
}

// The function of a command completes what follows its name, which is the first of $words.
std::string leaf_function(const CommandFacts& command) {
  std::string specs;
  for (const OptionFacts& option : command.options) specs += option_specs(option);
  for (const OptionFacts& argument : command.arguments) specs += argument_spec(argument);
  return fmt::format("{}() {{\n  _arguments -S{}\n}}\n\n", function_name(command), specs);
}

// A group passes on to the function of the command that follows it.
std::string group_function(const CommandFacts& group) {
  std::string specs;
  for (const OptionFacts& option : group.options) specs += option_specs(option);
  std::string commands, branches;
  for (const CommandFacts& command : group.commands) {
    commands += fmt::format("\n      '{}:{}'", command.word, escaped(command.description));
    branches += fmt::format("    {}) {} ;;\n", command.word, function_name(command));
  }
  return fmt::format(R"({}() {{
  if ((CURRENT == 2)); then
    local -a commands
    commands=({}
    )
    [[ $words[2] == -* ]] || _describe command commands
    _arguments -S{}
    return
  fi
  shift words
  ((CURRENT--))
  case $words[1] in
{}  esac
}}

)",
                     function_name(group), commands, specs, branches);
}

}  // namespace

std::string zsh_completion(const CommandFacts& program) {
  std::string text =
      fmt::format("#compdef {0}\n# Written by '{0} completion zsh'.\n\n", program.word);
  for (const CommandFacts* command : all_commands(program)) {
    text += command->commands.empty() ? leaf_function(*command) : group_function(*command);
  }
  // Read from $fpath, the file is the body of a function; read by eval, it registers the function.
  text += fmt::format(
      "if [[ $funcstack[1] == _{0} ]]; then\n  _{0} \"$@\"\nelse\n  compdef _{0} {0}\nfi\n",
      program.word);
  return text;
}

}  // namespace clora
