// Tables for people. Pure functions; thread-safe.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace clora {

// The rows as lines, columns to the left and two blanks between them, each line after `indent`
// blanks; no line end after the last. REQUIRES: rows of one length.
std::string table_of(const std::vector<std::vector<std::string>>& rows, std::size_t indent);

}  // namespace clora
