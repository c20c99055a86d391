// The key-value pairs of a TOML file as options take them: texts. What TOML has and options have
// not (tables in tables, dates) is refused. Pure; thread-safe.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace clora {

struct TomlOption {
  std::string section;  // "" at the top of the file
  std::string name;
  std::vector<std::string> values;  // one, or those of an array
  bool is_array = false;
};

// Sections in TOML's order of keys. Errors: UsageError (config_file.hpp), which begins with
// `source`, and names line and column.
std::vector<TomlOption> parse_toml_options(std::string_view text, std::string_view source);

}  // namespace clora
