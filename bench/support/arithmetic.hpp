// The arithmetic of a bench's products, and the matching variant. Pure; thread-safe.
#pragma once

#include "clora/runtime/device/variant.hpp"

namespace clora::bench {

// f32, or operands cast to bf16 for the device's matrix unit.
enum class Arithmetic { f32, bf16 };

// The variant for benches of this arithmetic if the environment names `wanted`. A variant with a
// matrix unit casts operands to bf16, so benches whose names say f32 run its f32 counterpart.
constexpr Variant variant_with(Arithmetic arithmetic, Variant wanted) {
  if (arithmetic == Arithmetic::bf16 || !has_matrix_unit(wanted)) return wanted;
  return is_for_cpus(wanted) ? Variant::cpu : Variant::portable;
}

}  // namespace clora::bench
