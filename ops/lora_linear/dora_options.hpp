// The -D options of cl/lora_linear/dora.cl.
#pragma once

#include <cstdint>
#include <string>

#include "clora/runtime/context.hpp"
#include "clora/runtime/memory/dtype.hpp"
#include "clora/runtime/programs/program_cache.hpp"

namespace clora {

inline constexpr std::uint32_t kDoraGroup = 64;    // work-items of a group
inline constexpr std::uint32_t kDoraColumns = 16;  // of a group that sums chunks

// Work-items of a group that sums what few items would take long for: chunks, rows of a.
inline std::uint32_t dora_sum_group(const Context& context) {
  return context.device().kind == DeviceKind::cpu ? 64 : 256;
}

// A kernel that does not use a type gets f32. vec: VEC_SIZE; 0: the caller sets it.
inline Defines dora_defines(const Context& context, std::uint32_t vec, DType dy = DType::f32,
                            DType f = DType::f32, DType scaled = DType::f32) {
  Defines defines;
  if (vec > 0) defines.set("VEC_SIZE", vec);
  defines.set("DY_TYPE", name_of(dy)).set("Y_TYPE", name_of(f));
  defines.set("SCALED_TYPE", name_of(scaled));
  defines.set("GROUP", kDoraGroup).set("COLUMNS", kDoraColumns);
  defines.set("SUM_GROUP", dora_sum_group(context));
  return defines;
}

}  // namespace clora
