// Parsing of build options: reads their -D values and replaces them. Pure functions; thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ops/tuned/tuned_table.hpp"

namespace clora {

// `fixed` with a -D for each value.
std::string options_with(const std::string& fixed, const NamedNumbers& values);
// The options without -D of these names.
std::string options_without(const std::string& options, const std::vector<std::string>& names);
// The values that the options define for these names; undefined names are omitted.
NamedNumbers values_in(const std::string& options, const std::vector<std::string>& names);

// The name of "NAME=VALUE".
std::string define_name(std::string_view define);

}  // namespace clora
