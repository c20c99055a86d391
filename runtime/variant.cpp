#include "runtime/variant.hpp"

#include <array>

#include "runtime/error.hpp"

namespace clora {
namespace {

constexpr std::array<std::string_view, 4> kNames{"automatic", "portable", "cpu", "avx512_bf16"};

}  // namespace

std::string_view name_of(Variant variant) { return kNames.at(static_cast<std::size_t>(variant)); }

Variant variant_of(std::string_view name) {
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i] == name) return static_cast<Variant>(i);
  }
  fail(ErrorCode::invalid_argument, "variant: '{}' is none of {}", name, fmt::join(kNames, ", "));
}

Variant resolve(Variant wanted, Precision precision, const Device& device) {
  if (wanted == Variant::avx512_bf16 && device.matrix_unit != MatrixUnit::avx512_bf16) {
    fail(ErrorCode::unsupported,
         "variant: avx512_bf16 needs pocl on a CPU with that extension; '{}' on {} has {} as its "
         "matrix unit; take another variant or automatic",
         device.name, device.platform, name_of(device.matrix_unit));
  }
  if (wanted != Variant::automatic) return wanted;
  if (device.kind != DeviceKind::cpu) return Variant::portable;
  const bool bf16 =
      precision == Precision::automatic && device.matrix_unit == MatrixUnit::avx512_bf16;
  return bf16 ? Variant::avx512_bf16 : Variant::cpu;
}

}  // namespace clora
