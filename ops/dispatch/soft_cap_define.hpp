// The -D parameter of cl/soft_cap.clh.
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <string_view>

#include "clora/runtime/programs/program_cache.hpp"
#include "runtime/fail.hpp"

namespace clora {

// 0: no cap; the program is that of before.
inline void define_soft_cap(Defines& defines, float cap) {
  if (cap != 0) defines.set("SOFT_CAP", fmt::format("{:.9e}f", cap));
}

inline void require_soft_cap(std::string_view op, float cap) {
  require(std::isfinite(cap) && cap >= 0, "{}: the soft cap must be 0 (none) or more, got {}", op,
          cap);
}

}  // namespace clora
