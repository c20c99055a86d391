#include "clora/runtime/device/variant.hpp"

#include <array>

#include "runtime/fail.hpp"

namespace clora {
namespace {

constexpr std::array<std::string_view, 9> kNames{
    "automatic", "portable", "cpu", "cpu_int8", "avx512_bf16", "amx", "mma", "wgmma", "matrix"};

// Whether the unit is one of AMD's or Intel's GPUs.
bool is_of_other_gpus(MatrixUnit unit) { return unit >= MatrixUnit::mfma; }

// The variant for a device's matrix unit.
Variant variant_of(MatrixUnit unit) {
  switch (unit) {
    case MatrixUnit::avx512_bf16:
      return Variant::avx512_bf16;
    case MatrixUnit::amx:
      return Variant::amx;
    case MatrixUnit::mma:
      return Variant::mma;
    case MatrixUnit::wgmma:
      return Variant::wgmma;
    case MatrixUnit::none:
      return Variant::portable;
    default:
      return Variant::matrix;
  }
}

}  // namespace

std::string_view name_of(Variant variant) { return kNames.at(static_cast<std::size_t>(variant)); }

Variant variant_of(std::string_view name) {
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i] == name) return static_cast<Variant>(i);
  }
  fail(ErrorCode::invalid_argument, "variant: '{}' is not one of {}", name,
       fmt::join(kNames, ", "));
}

bool can_take(Variant variant, const Device& device) {
  switch (variant) {
    case Variant::cpu_int8:
      return device.integer_dots != IntegerDots::none;
    case Variant::avx512_bf16:
      return device.matrix_unit == MatrixUnit::avx512_bf16 || device.matrix_unit == MatrixUnit::amx;
    case Variant::amx:
      return device.matrix_unit == MatrixUnit::amx;
    case Variant::mma:
      return device.matrix_unit == MatrixUnit::mma || device.matrix_unit == MatrixUnit::wgmma;
    case Variant::wgmma:
      return device.matrix_unit == MatrixUnit::wgmma;
    case Variant::matrix:
      return is_of_other_gpus(device.matrix_unit);
    default:
      return true;
  }
}

Variant resolve(Variant wanted, Precision precision, const Device& device) {
  if (!can_take(wanted, device)) {
    fail(ErrorCode::unsupported,
         "variant: {} needs a device with that matrix unit or integer dots (on CPUs, under pocl); "
         "'{}' on {} has {} and {}; use another variant or automatic",
         name_of(wanted), device.name, device.platform, name_of(device.matrix_unit),
         name_of(device.integer_dots));
  }
  if (wanted != Variant::automatic) return wanted;
  const bool is_cpu = device.kind == DeviceKind::cpu;
  if (precision == Precision::f32) return is_cpu ? Variant::cpu : Variant::portable;
  if (device.matrix_unit != MatrixUnit::none) return variant_of(device.matrix_unit);
  if (device.integer_dots != IntegerDots::none) return Variant::cpu_int8;
  return is_cpu ? Variant::cpu : Variant::portable;
}

}  // namespace clora
