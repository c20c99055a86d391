// Checks of the host's memory, for doctors. Thread-safe.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "tools/command_line/health/health_report.hpp"

namespace clora {

struct HostMemory {
  std::uint64_t total_bytes = 0;
  std::uint64_t available_bytes = 0;
};

// Reads /proc/meminfo; empty if the file is not as expected.
std::optional<HostMemory> host_memory(const std::filesystem::path& meminfo = "/proc/meminfo");

// The host's memory next to what a small model was measured to need, and limits of this shell.
HealthFindings check_memory();

}  // namespace clora
