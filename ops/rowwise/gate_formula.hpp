// The -D of kernels that include cl/rowwise/gate_function.clh.
#pragma once

#include <string_view>

#include "clora/ops/rowwise/swiglu.hpp"

namespace clora {

// Empty for silu.
inline std::string_view gate_formula(GateFunction function) {
  switch (function) {
    case GateFunction::gelu:
      return "GELU";
    case GateFunction::sigmoid:
      return "SIGMOID";
    case GateFunction::silu:
      break;
  }
  return "";
}

}  // namespace clora
