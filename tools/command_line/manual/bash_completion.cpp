#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tools/command_line/manual/completion.hpp"
#include "tools/command_line/replace_all.hpp"

namespace clora {
namespace {

std::string quoted(std::string text) {
  replace_all(text, "'", R"('\'')");
  return "'" + text + "'";
}

// The shell variable `kind` that the end of the script reads.
std::string assignment_of(const OptionFacts& option) {
  switch (option.kind) {
    case ValueKind::word:
      return "kind=words words=" + quoted(fmt::format("{}", fmt::join(option.words, " ")));
    case ValueKind::file:
      return "kind=file";
    case ValueKind::folder:
      return "kind=folder";
    case ValueKind::path:
      return "kind=file";  // files and folders
    default:
      return "kind=text";
  }
}

// "--rank | --rank=": the second form stands for a value after '='.
std::string pattern_of(const OptionFacts& option) {
  std::vector<std::string> forms;
  for (const std::string& name : option.names) {
    if (!option.value_attached) forms.push_back(name);
    forms.push_back(name + "=");
  }
  return fmt::format("{}", fmt::join(forms, " | "));
}

std::string option_names_of(const CommandFacts& command) {
  std::vector<std::string> names;
  for (const OptionFacts& option : command.options) {
    names.insert(names.end(), option.names.begin(), option.names.end());
  }
  return fmt::format("{}", fmt::join(names, " "));
}

std::string command_names_of(const CommandFacts& command) {
  std::vector<std::string> names;
  for (const CommandFacts& below : command.commands) names.push_back(below.word);
  return fmt::format("{}", fmt::join(names, " "));
}

// The branch of a command: what may follow it, and which options take which values.
std::string branch_of(const CommandFacts& command) {
  std::string text = fmt::format("    {})\n      options={}\n", quoted(command.full_name),
                                 quoted(option_names_of(command)));
  if (!command.commands.empty()) {
    text += fmt::format("      commands={}\n", quoted(command_names_of(command)));
  }
  if (!command.arguments.empty()) text += "      " + assignment_of(command.arguments.back()) + "\n";
  std::string values;
  for (const OptionFacts& option : command.options) {
    if (option.kind == ValueKind::none) continue;
    values += fmt::format("        {}) value=1 {} ;;\n", pattern_of(option), assignment_of(option));
  }
  if (!values.empty()) text += "      case $option in\n" + values + "      esac\n";
  return text + "      ;;\n";
}

// Commands come before all else, so the leading words name the command.
constexpr const char* kBegin =
    R"(# bash completion for @PROGRAM@. Written by '@PROGRAM@ completion bash'.
_@PROGRAM@() {
  local current=${COMP_WORDS[COMP_CWORD]} command=@PROGRAM@ at=1
  while ((at < COMP_CWORD)); do
    case "$command ${COMP_WORDS[at]}" in
      @COMMANDS@) command+=" ${COMP_WORDS[at]}" ;;
      *) break ;;
    esac
    at=$((at + 1))
  done

  # The option whose value is being written. bash makes '=' a word of its own.
  local option=${COMP_WORDS[COMP_CWORD - 1]}
  if [[ $current == '=' ]]; then
    option+='=' current=''
  elif [[ $option == '=' && COMP_CWORD -ge 3 ]]; then
    option=${COMP_WORDS[COMP_CWORD - 2]}=
    # --adapter NAME=FOLDER
    [[ $option == -* ]] || option=${COMP_WORDS[COMP_CWORD - 3]}
  fi

  local kind='' words='' options='' commands='' value=''
  case $command in
)";

constexpr const char* kEnd = R"(  esac

  COMPREPLY=()
  if [[ -z $value && $current == -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$options" -- "$current")
  elif [[ -z $value && -n $commands ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$commands" -- "$current")
  elif [[ $kind == words ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
  elif [[ $kind == file ]]; then
    compopt -o default  # readline's own, which knows about quotes and ~
  elif [[ $kind == folder ]]; then
    compopt -o dirnames
  fi
}
complete -F _@PROGRAM@ @PROGRAM@
)";

}  // namespace

std::string bash_completion(const CommandFacts& program) {
  std::vector<std::string> names;
  std::string branches;
  for (const CommandFacts* command : all_commands(program)) {
    if (command != &program) names.push_back(quoted(command->full_name));
    branches += branch_of(*command);
  }
  std::string text = kBegin + branches + kEnd;
  replace_all(text, "@COMMANDS@", fmt::format("{}", fmt::join(names, " | ")));
  replace_all(text, "@PROGRAM@", program.word);
  return text;
}

}  // namespace clora
