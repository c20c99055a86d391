#include "ops/group_meeting.hpp"

#include <array>
#include <span>

namespace clora {
namespace {

bool speaks_ptx(const Device& device) {
  return device.matrix_unit == MatrixUnit::mma || device.matrix_unit == MatrixUnit::wgmma;
}

}  // namespace

std::uint32_t groups_side_by_side(const Device& device) {
  const bool pocl_threads =
      device.platform == "Portable Computing Language" && device.name.starts_with("pthread");
  return speaks_ptx(device) || pocl_threads ? device.compute_units : 0;
}

Tensor new_meeting(Context& context) {
  constexpr std::array<std::uint32_t, 2> kZeros{};
  return context.upload<std::uint32_t>({2}, DType::u32, kZeros, MemoryTag::scratch);
}

Defines& set_warps(Defines& defines, const Device& device) {
  return speaks_ptx(device) ? defines.set("WARPS") : defines;
}

}  // namespace clora
