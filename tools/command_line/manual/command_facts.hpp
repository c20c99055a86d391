// The commands and options of a program as plain data, read from its CLI11 tree: the one source of
// shell completions and manual pages. Commands and options that the help does not list are left
// out. Pure; thread-safe.
#pragma once

#include <string>
#include <vector>

#include "tools/command_line/cli_declarations.hpp"

namespace clora {

// What a shell offers for a value. none: the option takes no value.
enum class ValueKind { none, text, word, file, folder, path };

struct OptionFacts {
  std::vector<std::string> names;  // with dashes, short ones first; none for an argument
  std::string value;               // "FILE", "WORD", ...; empty if it takes none
  ValueKind kind = ValueKind::none;
  std::vector<std::string> words;  // of ValueKind::word
  std::string range;               // "1..65536"; empty: none, or the words
  bool required = false;
  bool repeats = false;         // takes several values
  bool value_optional = false;  // may be given without its value
  bool value_attached = false;  // takes a value after '=' only, as --profile=shapes
  std::string description, default_value, variable, group;
};

struct CommandFacts {
  std::string word;       // "add"
  std::string full_name;  // "clora adapters add"
  std::string description, footer;
  std::vector<OptionFacts> options = {};    // in the order of the help, --help first
  std::vector<OptionFacts> arguments = {};  // without names, by position
  std::vector<CommandFacts> commands = {};
};

// REQUIRES: `command` has a name, and so have the commands above it.
CommandFacts command_facts(const CLI::App& command);

// The command itself and all commands below it, each before its own.
std::vector<const CommandFacts*> all_commands(const CommandFacts& program);

}  // namespace clora
