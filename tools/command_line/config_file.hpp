// Configuration files: the options of a command in TOML, `batch-size = 4`, at the top of the file
// or in a section named like the command. Read by toml++, since CLI11's reader cuts texts at '#'
// and knows no escapes; written here.
#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace clora {

// A mistake in how the program was called: exit code 2.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The file's options as arguments of `command` ("--batch-size=4"), those in `given` left out: what
// stands on the command line wins. Errors: UsageError, for a file that cannot be read and for an
// option, a section or a value that the command has not, with what was meant.
std::vector<std::string> arguments_from_config(const std::filesystem::path& file,
                                               const CLI::App& command,
                                               const std::vector<std::string>& given);

// The same of a file's text; errors name `source`.
std::vector<std::string> arguments_from_config_text(std::string_view text, std::string_view source,
                                                    const CLI::App& command,
                                                    const std::vector<std::string>& given);

// The effective options of `command`, defaults included, one a line with its description.
// `left_out` names options that belong to one call, not to a configuration.
std::string config_text(const CLI::App& command, const std::vector<std::string>& left_out);

// The long names of a command's options, without dashes; negated flags (no-shuffle) too.
std::vector<std::string> option_names(const CLI::App& command);

// "clora train"
std::string full_name(const CLI::App& command);

// "unknown option --lerning-rate; did you mean --lr?" of "--lerning-rate" as it was written.
std::string unknown_option_message(const std::string& written, const CLI::App& command);

}  // namespace clora
