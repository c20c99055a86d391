// Options of a build taken apart: which -D they hold, and the same options with others.
// Pure functions; thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ops/tuned_table.hpp"

namespace clora {

// Options for a build: `fixed` and a -D for each value.
std::string options_with(const std::string& fixed, const NamedNumbers& values);
// The options without -D of these names.
std::string options_without(const std::string& options, const std::vector<std::string>& names);
// The values that options give to these names; a name that they leave out is not among them.
NamedNumbers values_in(const std::string& options, const std::vector<std::string>& names);

// "64"; nothing for other words.
std::optional<std::int64_t> whole_number(std::string_view text);

// The name of "NAME=VALUE".
std::string define_name(std::string_view define);

}  // namespace clora
