#include "tools/command_line/health/memory_checks.hpp"

#include <sys/resource.h>

#include <fstream>

namespace clora {
namespace {

HealthFindings check_host_memory(const std::optional<HostMemory>& memory) {
  if (!memory) return {};
  return {
      {Health::good,
       fmt::format("{} of {} host memory are available; fine-tuning SmolLM2-135M in Q4_1 with "
                   "4 x 512 tokens per step was measured at 1.4 GiB, 1.2 GiB of it on the device",
                   readable_bytes(static_cast<double>(memory->available_bytes)),
                   readable_bytes(static_cast<double>(memory->total_bytes)))}};
}

// Beyond it, the kernel kills processes of the container.
HealthFindings check_container(const std::optional<HostMemory>& host) {
  const std::optional<std::uint64_t> limit = container_limit_bytes();
  if (!limit || (host && *limit >= host->total_bytes)) return {};
  return {{Health::good, fmt::format("this container may use at most {} of memory",
                                     readable_bytes(static_cast<double>(*limit)))}};
}

HealthFindings check_address_space() {
  rlimit memory{};
  ::getrlimit(RLIMIT_AS, &memory);
  constexpr rlim_t least = rlim_t{4} << 30U;
  if (memory.rlim_cur == RLIM_INFINITY || memory.rlim_cur >= least) return {};
  return {{Health::note,
           fmt::format("this shell limits a process to {} of address space; drivers map more",
                       readable_bytes(static_cast<double>(memory.rlim_cur))),
           "ulimit -v unlimited"}};
}

}  // namespace

std::optional<HostMemory> host_memory(const std::filesystem::path& meminfo) {
  std::ifstream file(meminfo);
  HostMemory memory;
  std::string name, unit;
  for (std::uint64_t kib = 0; file >> name >> kib && std::getline(file, unit);) {
    if (name == "MemTotal:") memory.total_bytes = kib * 1024;
    if (name == "MemAvailable:") memory.available_bytes = kib * 1024;
  }
  if (memory.total_bytes == 0 || memory.available_bytes == 0) return std::nullopt;
  return memory;
}

// Version 2 of control groups writes "max" without a limit, version 1 a huge number.
std::optional<std::uint64_t> container_limit_bytes(const std::filesystem::path& control_groups) {
  for (const char* name : {"memory.max", "memory/memory.limit_in_bytes"}) {
    std::uint64_t bytes = 0;
    if (std::ifstream(control_groups / name) >> bytes) return bytes;
  }
  return std::nullopt;
}

HealthFindings check_memory() {
  const std::optional<HostMemory> memory = host_memory();
  HealthFindings found = check_host_memory(memory);
  append(found, check_container(memory));
  append(found, check_address_space());
  return found;
}

}  // namespace clora
