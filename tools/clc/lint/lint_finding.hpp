// A finding of a rule of clc lint.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tools/clc/kernel_file/source_locations.hpp"

namespace clora {

enum class Severity { note, warning, error };
std::string_view name_of(Severity severity);

struct LintFinding {
  std::string rule;  // rule id
  Severity severity = Severity::warning;
  SourceLocation location;
  SourceLocation use;  // expansion location of its macro; otherwise equal to location
  std::string text;
  std::string options;                // of the first set with the finding
  bool must_be_in_every_set = false;  // dropped unless every set has it
};

}  // namespace clora
