// The arithmetic of a bench's products, and the variant that has it. Pure; thread-safe.
#pragma once

#include "runtime/variant.hpp"

namespace clora::bench {

// f32, or operands rounded to bf16 by the device's matrix unit.
enum class Arithmetic { f32, bf16 };

// The variant for benches of this arithmetic where the environment names `wanted`. A variant with a
// matrix unit rounds operands, so it is never that of f32: benches whose names say f32 then run its
// f32 counterpart.
constexpr Variant variant_with(Arithmetic arithmetic, Variant wanted) {
  if (arithmetic == Arithmetic::bf16 || !has_matrix_unit(wanted)) return wanted;
  return is_for_cpus(wanted) ? Variant::cpu : Variant::portable;
}

}  // namespace clora::bench
