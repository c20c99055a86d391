// The options that say which arrays are meant, and what they should be: --compare NAME=FILE.npy.
#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace clora {

// "y=out.npy"
struct NamedFile {
  std::string array;
  std::filesystem::path file;
};

// `option` is for the message. Errors: UsageError.
NamedFile named_file(const std::string& text, std::string_view option);

// --compare; `help` says what is done with it.
void add_compare_option(CLI::App& command, std::vector<std::string>& compared, const char* help);

// An option that may be given several times, a value each.
CLI::Option* add_list_option(CLI::App& command, const char* name, std::vector<std::string>& values,
                             const char* help, const char* type);

}  // namespace clora
