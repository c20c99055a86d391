// The -D parameters and lanes of cl/matrix/matrix_unit.clh: the only place that maps a device's
// matrix unit to a header of it.
#pragma once

#include <string_view>

#include "clora/runtime/context.hpp"
#include "runtime/fail.hpp"

namespace clora {

// A unit of cl/matrix. emulated: in plain OpenCL C, on any device, for tests.
struct MatrixUnitChoice {
  MatrixUnit unit = MatrixUnit::none;
  bool emulated = false;

  bool empty() const noexcept { return unit == MatrixUnit::none; }
};

// The unit that kernels over matrix_unit.clh (*_matrix.cl) use on this Context; empty if it has
// none. Hopper GPUs have mma.sync, too. AMD's WMMA is one instruction of two units.
inline MatrixUnitChoice matrix_unit_of(const Context& context) {
  const Capabilities& has = context.capabilities();
  if (!has.has_gpu_matrices()) return {};
  return {has.has_unproven_matrices() ? context.device().matrix_unit : MatrixUnit::mma};
}

// The -D parameter and LANES of a unit's header.
struct MatrixUnitHeader {
  std::string_view define;
  std::uint32_t lanes = 0;
};
// REQUIRES: not empty.
inline MatrixUnitHeader matrix_unit_header(MatrixUnitChoice choice) {
  switch (choice.unit) {
    case MatrixUnit::mma:
      return {"MMA_SYNC", 32};
    case MatrixUnit::mfma:
      return {"MFMA", 64};
    case MatrixUnit::wmma_gfx11:
      return {"WMMA_GFX11", 32};
    case MatrixUnit::wmma_gfx12:
      return {"WMMA_GFX12", 32};
    case MatrixUnit::xmx:
      return {"XMX", 16};
    default:
      fail(ErrorCode::unsupported, "matrix unit: '{}' has no header in cl/matrix",
           name_of(choice.unit));
  }
}

// LANES of the unit's header: work-items of a sub-group. REQUIRES: not empty.
inline std::uint32_t matrix_unit_lanes(MatrixUnitChoice choice) {
  return matrix_unit_header(choice).lanes;
}

// Sets the options that select the header. REQUIRES: not empty.
inline Defines& define_matrix_unit(Defines& defines, MatrixUnitChoice choice) {
  defines.set(matrix_unit_header(choice).define);
  if (choice.emulated) return defines.set("EMULATED");
  // A lane of 16 holds whole fragments: 128 registers, the default, would spill.
  if (choice.unit == MatrixUnit::xmx) defines.add_option("-cl-intel-256-GRF-per-thread");
  return defines;
}

}  // namespace clora
