#include "runtime/variant.hpp"

#include <array>

#include "runtime/error.hpp"

namespace clora {
namespace {

constexpr std::array<std::string_view, 5> kNames{"automatic", "portable", "cpu", "avx512_bf16",
                                                 "amx"};

}  // namespace

std::string_view name_of(Variant variant) { return kNames.at(static_cast<std::size_t>(variant)); }

Variant variant_of(std::string_view name) {
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i] == name) return static_cast<Variant>(i);
  }
  fail(ErrorCode::invalid_argument, "variant: '{}' is none of {}", name, fmt::join(kNames, ", "));
}

bool can_take(Variant variant, const Device& device) {
  switch (variant) {
    case Variant::avx512_bf16:
      return device.matrix_unit != MatrixUnit::none;
    case Variant::amx:
      return device.matrix_unit == MatrixUnit::amx;
    default:
      return true;
  }
}

Variant resolve(Variant wanted, Precision precision, const Device& device) {
  if (!can_take(wanted, device)) {
    fail(ErrorCode::unsupported,
         "variant: {} needs pocl on a CPU with that extension; '{}' on {} has {} as its matrix "
         "unit; take another variant or automatic",
         name_of(wanted), device.name, device.platform, name_of(device.matrix_unit));
  }
  if (wanted != Variant::automatic) return wanted;
  if (device.kind != DeviceKind::cpu) return Variant::portable;
  if (precision == Precision::f32 || device.matrix_unit == MatrixUnit::none) return Variant::cpu;
  return device.matrix_unit == MatrixUnit::amx ? Variant::amx : Variant::avx512_bf16;
}

}  // namespace clora
