// Configuration files: the options of a command in TOML, `batch-size = 4`, at the top level of the
// file or in a section named after the command. toml++ reads them, because CLI11's reader cuts
// strings at '#' and does not support escapes. Writing is implemented here.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "tools/command_line/cli_declarations.hpp"

namespace clora {

// A usage error: exit code 2.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The file's options as arguments of `command` ("--batch-size=4") without those in `given`: the
// command line takes precedence. Errors: UsageError for an unreadable file and for an unknown
// option, section or value, with a suggestion.
std::vector<std::string> arguments_from_config(const std::filesystem::path& file,
                                               const CLI::App& command,
                                               const std::vector<std::string>& given);

// The same for the text of a file; errors name `source`.
std::vector<std::string> arguments_from_config_text(std::string_view text, std::string_view source,
                                                    const CLI::App& command,
                                                    const std::vector<std::string>& given);

// The effective options of `command` including defaults, one per line with its description.
// `left_out` names options that belong to a single call and not to a configuration.
std::string config_text(const CLI::App& command, const std::vector<std::string>& left_out);

// The value of an option as TOML: a number, true, false, or a string in quotes.
std::string toml_value(const std::string& value);

// The long names of a command's options without dashes, including negated flags (no-shuffle).
std::vector<std::string> option_names(const CLI::App& command);

// "clora train"
std::string full_name(const CLI::App& command);

// "unknown option --lerning-rate; did you mean --lr?" for `written` "--lerning-rate".
std::string unknown_option_message(const std::string& written, const CLI::App& command);

}  // namespace clora
