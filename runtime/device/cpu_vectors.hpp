// The vector registers of the processor that this process runs on, which CPU drivers compile for.
#pragma once

#include <cstdint>

namespace clora {

struct CpuVectors {
  std::uint32_t floats = 4;      // floats of a register
  std::uint32_t registers = 16;  // of that width
  bool operator==(const CpuVectors&) const = default;
};
inline constexpr CpuVectors kAvx512Vectors{.floats = 16, .registers = 32};
inline constexpr CpuVectors kAvx2Vectors{.floats = 8, .registers = 16};
inline constexpr CpuVectors kNeonVectors{.floats = 4, .registers = 32};

// May be called from any thread.
CpuVectors cpu_vectors();

}  // namespace clora
