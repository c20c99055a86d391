// The options that say what an array should be, and how near: --compare NAME=FILE.npy, --atol,
// --rtol, --ulp.
#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "tools/clc/comparison.hpp"

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
void add_tolerance_options(CLI::App& command, Tolerance& tolerance);

// An option that may be given several times, a value each.
CLI::Option* add_list_option(CLI::App& command, const char* name, std::vector<std::string>& values,
                             const char* help, const char* type);

}  // namespace clora
