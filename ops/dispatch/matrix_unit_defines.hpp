// The -D parameters and lanes of cl/matrix/matrix_unit.clh: the only place that maps a device's
// matrix unit to a header of it.
#pragma once

#include "clora/runtime/context.hpp"
#include "runtime/fail.hpp"

namespace clora {

// A unit of cl/matrix. emulated: in plain OpenCL C, on any device, for tests.
struct MatrixUnitChoice {
  MatrixUnit unit = MatrixUnit::none;
  bool emulated = false;

  bool empty() const noexcept { return unit == MatrixUnit::none; }
};

// The unit that kernels over matrix_unit.clh (*_matrix.cl) use on this Context; empty if the
// variant or the device has none. Hopper GPUs have mma.sync, too.
inline MatrixUnitChoice matrix_unit_of(const Context& context) {
  switch (context.variant()) {
    case Variant::mma:
    case Variant::wgmma:
      return {MatrixUnit::mma};
    default:
      return {};
  }
}

// LANES of the unit's header: work-items of a sub-group. REQUIRES: not empty.
inline std::uint32_t matrix_unit_lanes(MatrixUnitChoice choice) {
  require(choice.unit == MatrixUnit::mma, "matrix unit: '{}' has no header in cl/matrix",
          name_of(choice.unit));
  return 32;
}

// Sets the options that select the header. REQUIRES: not empty.
inline Defines& define_matrix_unit(Defines& defines, MatrixUnitChoice choice) {
  require(choice.unit == MatrixUnit::mma, "matrix unit: '{}' has no header in cl/matrix",
          name_of(choice.unit));
  defines.set("MMA_SYNC");
  if (choice.emulated) defines.set("EMULATED");
  return defines;
}

}  // namespace clora
