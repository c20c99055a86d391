// What a rule of clc lint finds.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tools/clc/source_locations.hpp"

namespace clora {

enum class Severity { note, warning, error };
std::string_view name_of(Severity severity);

struct Finding {
  std::string rule;  // its id
  Severity severity = Severity::warning;
  SourceLocation location;
  SourceLocation use;  // of the macro that it is written in; else as location
  std::string text;
  std::string options;                // of the first set that shows it
  bool must_be_in_every_set = false;  // no finding where another set does not show it
};

}  // namespace clora
