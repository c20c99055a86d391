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
// The memory that the control group of this container may use; empty if it has no limit.
std::optional<std::uint64_t> container_limit_bytes(
    const std::filesystem::path& control_groups = "/sys/fs/cgroup");

// The host's memory next to what a small model was measured to need, and limits of this shell.
HealthFindings check_memory();

}  // namespace clora
