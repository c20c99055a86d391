// The largest amount of memory that this process has had resident, for tests of limits. Empty under
// sanitizers, which keep freed memory.
#pragma once

#include <fstream>
#include <optional>
#include <string>

namespace clora::test {

inline std::optional<double> peak_mebibytes() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return std::nullopt;
#else
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmHWM:")) return std::stod(line.substr(6)) / 1024;
  }
  return std::nullopt;
#endif
}

}  // namespace clora::test
