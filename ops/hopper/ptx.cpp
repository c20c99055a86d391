#include "ops/hopper/ptx.hpp"

#include "ops/dispatch/variant_dispatch.hpp"

namespace clora {

bool has_ptx(const Device& device) {
  return device.matrix_unit == MatrixUnit::mma || device.matrix_unit == MatrixUnit::wgmma;
}

bool uses_ptx(Variant variant, const Device& device) {
  return variant != Variant::portable && has_ptx(device);
}

bool uses_ptx(Context& context) {
  return uses_ptx(context.variant(), context.device()) && !makes_reference(context);
}

Defines& set_use_ptx(Defines& defines, Context& context) {
  return uses_ptx(context) ? defines.set(kUsePtx) : defines;
}

}  // namespace clora
