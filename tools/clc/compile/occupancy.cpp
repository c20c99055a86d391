#include "tools/clc/compile/occupancy.hpp"

#include <algorithm>

#include "runtime/integer_sizes.hpp"

namespace clora {
namespace {

constexpr std::size_t kKibibyte = 1024;

// CUDA C++ Programming Guide, "Technical Specifications per Compute Capability". A multiprocessor
// has 65536 registers in four partitions, allocated in units of 256 per warp (CUDA Occupancy
// Calculator), and reserves 1 KiB of local memory per work-group.
struct NvidiaLimits {
  std::string_view target;
  std::size_t warps, groups, local_bytes;
};
constexpr std::array kNvidia{
    NvidiaLimits{"sm_80", 64, 32, kKibibyte * 164}, NvidiaLimits{"sm_86", 48, 16, kKibibyte * 100},
    NvidiaLimits{"sm_89", 48, 24, kKibibyte * 100}, NvidiaLimits{"sm_90", 64, 32, kKibibyte * 228}};

// LLVM's AMDGPUBaseInfo.cpp: getTotalNumVGPRs, getVGPRAllocGranule, getMaxWavesPerEU. Local memory
// is per group of SIMDs that share it: a compute unit on gfx9, a work-group processor on gfx10.
struct AmdLimits {
  std::string_view target;
  std::size_t registers, granule, waves, items, local_bytes;
};
constexpr std::array kAmd{AmdLimits{"gfx906", 256, 4, 10, 64, kKibibyte * 64},
                          AmdLimits{"gfx90a", 512, 8, 8, 64, kKibibyte * 64},
                          AmdLimits{"gfx942", 512, 8, 8, 64, kKibibyte * 64},
                          AmdLimits{"gfx1030", 1024, 16, 16, 32, kKibibyte * 128},
                          AmdLimits{"gfx1100", 1536, 24, 16, 32, kKibibyte * 128},
                          AmdLimits{"gfx1201", 1536, 24, 16, 32, kKibibyte * 128}};
constexpr std::size_t kSimds = 4;

void limit(Occupancy& found, std::size_t to, std::string_view by) {
  if (to >= found.resident) return;
  found.resident = to;
  found.limit = by;
}

std::size_t items_of(const KernelFigures& kernel) {
  return kernel.required_items() > 0 ? kernel.required_items() : kAssumedGroup;
}

Occupancy of_nvidia(const KernelFigures& kernel, const NvidiaLimits& has) {
  constexpr std::size_t kParts = 4, kRegistersOfPart = 16384, kGiven = 256, kKept = 1024;
  constexpr std::size_t kWarp = 32;
  Occupancy found{.resident = has.warps, .most = has.warps};
  const std::size_t warps = divide_up(items_of(kernel), kWarp);
  const auto of_groups = [&](std::size_t groups) { return groups * warps; };
  const std::size_t of_warp = round_up(std::max<std::size_t>(1, *kernel.registers) * kWarp, kGiven);
  limit(found, of_groups(has.warps / warps), "groups");
  limit(found, of_groups(kRegistersOfPart / of_warp * kParts / warps), "registers");
  limit(found, of_groups(has.local_bytes / (kernel.local_bytes.value_or(0) + kKept)),
        "local memory");
  limit(found, of_groups(has.groups), "groups");
  return found;
}

// gfx9 has 800 scalar registers, allocated in units of 16 (getOccupancyWithNumSGPRs, same source).
std::size_t waves_by_scalars(std::size_t registers) {
  return registers <= 80 ? 10 : registers <= 88 ? 9 : registers <= 100 ? 8 : 7;
}

Occupancy of_amd(const KernelFigures& kernel, const AmdLimits& has) {
  Occupancy found{.resident = has.waves, .most = has.waves};
  const std::size_t given = round_up(std::max<std::size_t>(1, *kernel.registers), has.granule);
  limit(found, has.registers / given, "registers");
  if (has.target.starts_with("gfx9")) {
    limit(found, waves_by_scalars(kernel.scalar_registers.value_or(0)), "scalar registers");
  }
  if (kernel.local_bytes.value_or(0) > 0) {
    const std::size_t waves = divide_up(items_of(kernel), has.items);
    const std::size_t together = has.local_bytes / *kernel.local_bytes * waves;
    limit(found, divide_up(together, kSimds), "local memory");
  }
  return found;
}

}  // namespace

std::optional<Occupancy> occupancy_of(const KernelFigures& kernel, const Target& target) {
  return occupancy_on(target.name, kernel);
}

std::optional<Occupancy> occupancy_on(std::string_view processor, const KernelFigures& kernel) {
  if (!kernel.registers) return {};
  // sm_90a is sm_90 with instructions that later processors do not support.
  const std::string_view family = processor.substr(0, std::string_view("sm_90").size());
  std::optional<Occupancy> found;
  for (const NvidiaLimits& has : kNvidia) {
    if (has.target == family) found = of_nvidia(kernel, has);
  }
  for (const AmdLimits& has : kAmd) {
    if (has.target == processor) found = of_amd(kernel, has);
  }
  if (found) found->assumed_group = kernel.required_items() == 0;
  return found;
}

}  // namespace clora
