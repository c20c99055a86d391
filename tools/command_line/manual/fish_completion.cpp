#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tools/command_line/manual/completion.hpp"
#include "tools/command_line/replace_all.hpp"

namespace clora {
namespace {

std::string quoted(std::string text) {
  replace_all(text, "\\", "\\\\");
  replace_all(text, "'", "\\'");
  return "'" + text + "'";
}

// "adapters add" for 'clora adapters add'; empty for the program.
std::string words_after_program(const CommandFacts& command) {
  const std::size_t space = command.full_name.find(' ');
  return space == std::string::npos ? "" : command.full_name.substr(space + 1);
}

// What fish offers for a value. -x: it must follow, and is no file; -r -F: it must follow, a file.
std::string value_flags(const OptionFacts& option) {
  const bool must_follow = !option.value_optional;
  switch (option.kind) {
    case ValueKind::none:
      return "";
    case ValueKind::word:
      return fmt::format(" {} -a {}", must_follow ? "-x" : "-f",
                         quoted(fmt::format("{}", fmt::join(option.words, " "))));
    case ValueKind::folder:
      return fmt::format(" {} -a '(__fish_complete_directories)'", must_follow ? "-x" : "-f");
    case ValueKind::file:
    case ValueKind::path:
      return must_follow ? " -r -F" : " -F";
    default:
      return must_follow ? " -x" : "";
  }
}

std::string option_line(const std::string& program, const std::string& condition,
                        const OptionFacts& option) {
  std::string names;
  for (const std::string& name : option.names) {
    names += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
  }
  return fmt::format("complete -c {} -n {}{}{} -d {}\n", program, quoted(condition), names,
                     value_flags(option), quoted(option.description));
}

std::string argument_line(const std::string& program, const std::string& condition,
                          const OptionFacts& argument) {
  const std::string offered = value_flags(argument);
  if (argument.kind == ValueKind::none || argument.kind == ValueKind::text) return "";
  const bool files = argument.kind == ValueKind::file || argument.kind == ValueKind::path;
  return fmt::format("complete -c {} -n {}{}\n", program, quoted(condition),
                     files ? " -F" : offered);
}

std::string lines_of(const std::string& program, const CommandFacts& command) {
  const std::string words = words_after_program(command);
  const std::string next = fmt::format("__{}_expects {}", program, words);
  const std::string inside =
      command.commands.empty() ? fmt::format("__{}_in {}", program, words) : next;
  std::string text = fmt::format("\n# {}\n", command.full_name);
  for (const CommandFacts& below : command.commands) {
    text += fmt::format("complete -c {} -n {} -a {} -d {}\n", program, quoted(next), below.word,
                        quoted(below.description));
  }
  for (const OptionFacts& option : command.options) text += option_line(program, inside, option);
  for (const OptionFacts& argument : command.arguments) {
    text += argument_line(program, inside, argument);
  }
  return text;
}

// Commands come before all else, so the leading words name the command.
constexpr const char* kBegin =
    R"(# fish completion for @PROGRAM@. Written by '@PROGRAM@ completion fish'.

# Whether the command line before the cursor begins with these commands.
function __@PROGRAM@_in
    set -l words (commandline -opc)
    set -e words[1]
    for word in $argv
        test (count $words) -gt 0; and test "$words[1]" = "$word"; or return 1
        set -e words[1]
    end
end

# Whether these commands are all that it holds, so that a further one may follow.
function __@PROGRAM@_expects
    set -l words (commandline -opc)
    set -e words[1]
    test "$words" = "$argv"
end

complete -c @PROGRAM@ -f
)";

}  // namespace

std::string fish_completion(const CommandFacts& program) {
  std::string text = kBegin;
  replace_all(text, "@PROGRAM@", program.word);
  for (const CommandFacts* command : all_commands(program)) {
    text += lines_of(program.word, *command);
  }
  return text;
}

}  // namespace clora
