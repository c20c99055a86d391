#include "ops/group_meeting.hpp"

namespace clora {

bool speaks_ptx(const Device& device) {
  return device.matrix_unit == MatrixUnit::mma || device.matrix_unit == MatrixUnit::wgmma;
}

std::uint32_t groups_side_by_side(const Device& device) {
  const bool pocl_threads =
      device.platform == "Portable Computing Language" && device.name.starts_with("pthread");
  return speaks_ptx(device) || pocl_threads ? device.compute_units : 0;
}

Defines& set_warps(Defines& defines, const Device& device) {
  return speaks_ptx(device) ? defines.set("WARPS") : defines;
}

}  // namespace clora
