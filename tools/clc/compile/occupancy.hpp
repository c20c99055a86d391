// Occupancy: the number of warps (NVIDIA) or waves (AMD) of a kernel that are resident at once,
// from its registers, local memory and work-group size. Pure functions; thread-safe.
#pragma once

#include <optional>
#include <string_view>

#include "tools/clc/compile/kernel_figures.hpp"
#include "tools/clc/compile/target.hpp"

namespace clora {

struct Occupancy {
  std::size_t resident = 0;  // NVIDIA: warps per multiprocessor; AMD: waves per SIMD
  std::size_t most = 0;
  std::string_view limit =
      {};  // "registers", "scalar registers", "local memory", "groups"; empty: none
  bool assumed_group = false;  // no required work-group size; kAssumedGroup items are assumed

  bool operator==(const Occupancy&) const = default;
};

inline constexpr std::size_t kAssumedGroup = 256;

// Empty if the registers or the target's processor ("device") are unknown.
std::optional<Occupancy> occupancy_of(const KernelFigures& kernel, const Target& target);
// The same for a named processor: "sm_90", "gfx90a".
std::optional<Occupancy> occupancy_on(std::string_view processor, const KernelFigures& kernel);

}  // namespace clora
