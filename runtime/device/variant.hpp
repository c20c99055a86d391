// Variant: the kind of kernels that a Context's ops use, if a family has several. It is the user's
// name of a cap: a Context resolves it once into its Capabilities
// (runtime/device/capabilities.hpp), by which implementations are chosen; ops/ and what uses it
// compare no variants.
#pragma once

#include <string_view>

#include "clora/runtime/device/device.hpp"

namespace clora {

// portable: plain OpenCL C, correct on every device. cpu: work-groups of one item with wide
// vectors, f32. cpu_int8: as cpu, but few rows are multiplied with quantised weights in integers,
// as 16-bit numbers. avx512_bf16: as cpu_int8, but large products round their operands to bf16
// (sums stay f32). amx: the same on matrix tiles. mma: large products on NVIDIA's matrix units,
// with warp-level instructions. wgmma: large products, attention and the LM head's loss with
// warp-group instructions. matrix: as mma, on the matrix units of AMD's and Intel's GPUs. mma,
// wgmma and matrix round their operands to bf16. automatic: the best for the device within the
// precision.
enum class Variant { automatic, portable, cpu, cpu_int8, avx512_bf16, amx, mma, wgmma, matrix };
std::string_view name_of(Variant variant);
// Errors: invalid_argument, with the list of valid names.
Variant variant_of(std::string_view name);

// Whether large products round their operands in this variant.
constexpr bool has_matrix_unit(Variant variant) { return variant >= Variant::avx512_bf16; }
// Whether the variant uses kernels for CPU devices.
constexpr bool is_for_cpus(Variant variant) {
  return variant >= Variant::cpu && variant <= Variant::amx;
}

// f32: operands of products keep their 24 bits. automatic: uses the device's matrix unit if it has
// one; sums and everything between products stay f32.
enum class Precision { f32, automatic };

// Whether the device has what the variant needs.
bool can_take(Variant variant, const Device& device);

// Resolves `wanted` on a device; the result is never automatic. Errors: unsupported, for a variant
// that needs a matrix unit that the device lacks.
Variant resolve(Variant wanted, Precision precision, const Device& device);

}  // namespace clora
