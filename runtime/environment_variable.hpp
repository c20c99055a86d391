// Environment variables. Thread-safe as std::getenv is: while no thread changes the environment.
#pragma once

#include <cstdlib>
#include <string>

namespace clora {

// The variable's value; empty if it is not set.
inline std::string environment_variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace clora
