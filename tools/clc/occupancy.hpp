// Occupancy: how many warps (NVIDIA) or waves (AMD) of a kernel a processor holds at once, by its
// registers, local memory and group size. Pure functions; thread-safe.
#pragma once

#include <optional>
#include <string_view>

#include "tools/clc/kernel_figures.hpp"
#include "tools/clc/target.hpp"

namespace clora {

struct Occupancy {
  std::size_t resident = 0;  // NVIDIA: warps of a multiprocessor; AMD: waves of a SIMD
  std::size_t most = 0;
  std::string_view limit =
      {};  // "registers", "scalar registers", "local memory", "groups"; empty: none
  bool assumed_group = false;  // the kernel requires none: groups of kAssumedGroup items

  bool operator==(const Occupancy&) const = default;
};

inline constexpr std::size_t kAssumedGroup = 256;

// Empty where the registers are not known, or the target's processor is not ("device").
std::optional<Occupancy> occupancy_of(const KernelFigures& kernel, const Target& target);
// The same on a processor by its name: "sm_90", "gfx90a".
std::optional<Occupancy> occupancy_on(std::string_view processor, const KernelFigures& kernel);

}  // namespace clora
