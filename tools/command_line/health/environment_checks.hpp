// Checks of the environment variables CLORA_*, for doctors: those that are set and change what
// programs do, values without an effect, and names that clora does not read. Not thread-safe, as
// std::getenv.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tools/command_line/health/health_report.hpp"

namespace clora {

// Every variable that the programs, scripts, tests and benches read.
std::vector<std::string> known_variables();

// A variable that users of the programs may set, "NAME" or "NAME=VALUE" if one value has an effect.
struct DocumentedVariable {
  std::string name;
  std::string effect;
};
std::vector<DocumentedVariable> documented_variables();

// REQUIRES: `environment` is "NAME=VALUE", as in ::environ. A value that every command refuses is
// bad; empty values count as unset.
HealthFindings check_environment(std::span<const std::string> environment);
// The environment of this process.
HealthFindings check_environment();

}  // namespace clora
