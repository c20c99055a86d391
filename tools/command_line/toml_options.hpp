// The key-value pairs of a TOML file as option strings. TOML features without an option equivalent
// (nested tables, dates) are rejected. Pure; thread-safe.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace clora {

struct TomlOption {
  std::string section;  // "" at the top level of the file
  std::string name;
  std::vector<std::string> values;  // one value, or the elements of an array
  bool is_array = false;
};

// Returns the options with the sections in TOML's order of keys. Errors: UsageError
// (config_file.hpp), which begins with `source` and names line and column.
std::vector<TomlOption> parse_toml_options(std::string_view text, std::string_view source);

}  // namespace clora
