// Text tables. Pure functions; thread-safe.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace clora {

// The rows as lines of left-aligned columns, separated by two spaces and indented by `indent`
// spaces; no newline after the last. REQUIRES: all rows have the same length.
std::string table_of(const std::vector<std::vector<std::string>>& rows, std::size_t indent);

}  // namespace clora
