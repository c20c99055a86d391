#include "clora/runtime/device/capabilities.hpp"

#include <fmt/format.h>

#include <array>

namespace clora {
namespace {

constexpr std::array<std::string_view, 6> kNames{"none", "mma_sync", "wgmma",
                                                 "mfma", "wmma",     "xmx"};

bool has_extension(const Device& device, std::string_view extension) {
  return (' ' + device.extensions + ' ').find(fmt::format(" {} ", extension)) != std::string::npos;
}

MatrixInstruction matrix_of(const Device& device) {
  switch (device.matrix_unit) {
    case MatrixUnit::mma:
      return MatrixInstruction::mma_sync;
    case MatrixUnit::wgmma:
      return MatrixInstruction::wgmma;
    case MatrixUnit::mfma:
      return MatrixInstruction::mfma;
    case MatrixUnit::wmma_gfx11:
    case MatrixUnit::wmma_gfx12:
      return MatrixInstruction::wmma;
    case MatrixUnit::xmx:
      return MatrixInstruction::xmx;
    default:
      return MatrixInstruction::none;
  }
}

// Whether the variant's products of few rows with quantised weights may run in integers.
bool multiplies_integers(Variant variant) {
  return variant >= Variant::cpu_int8 && is_for_cpus(variant);
}

bool has_nvidia_matrices(MatrixInstruction matrix) {
  return matrix == MatrixInstruction::mma_sync || matrix == MatrixInstruction::wgmma;
}

bool has_pocl_threads(const Device& device) {
  return is_pocl(device) && device.name.starts_with("pthread");
}

std::string_view yes_or_no(bool value) { return value ? "yes" : "no"; }

}  // namespace

std::string_view name_of(MatrixInstruction instruction) {
  return kNames.at(static_cast<std::size_t>(instruction));
}

Capabilities all_capabilities(const Device& device) {
  const MatrixInstruction matrix = matrix_of(device);
  const bool nvidia = has_nvidia_matrices(matrix);  // sm_80 or later, with NVIDIA's driver
  return {.cpu = device.kind == DeviceKind::cpu,
          .vectors = device.vectors,
          .integer_dots = device.integer_dots,
          .bf16_dots = device.matrix_unit == MatrixUnit::avx512_bf16 ||
                       device.matrix_unit == MatrixUnit::amx,
          .amx = device.matrix_unit == MatrixUnit::amx,
          .sub_group_shuffle = nvidia || has_extension(device, "cl_khr_subgroup_shuffle") ||
                               has_extension(device, "cl_intel_subgroups"),
          .sub_group_size = device.sub_group_size,
          .fp16 = has_extension(device, "cl_khr_fp16"),
          .ptx = nvidia,
          .matrix = matrix,
          .asynchronous_copy = nvidia,
          .grid_barrier = nvidia || has_pocl_threads(device),
          .max_allocation_bytes = device.max_allocation_bytes,
          .local_memory_bytes = device.local_memory_bytes};
}

Capabilities capped(Capabilities capabilities, Variant variant) {
  Capabilities left{.vectors = capabilities.vectors,
                    .max_allocation_bytes = capabilities.max_allocation_bytes,
                    .local_memory_bytes = capabilities.local_memory_bytes};
  if (variant == Variant::automatic) return capabilities;
  if (variant == Variant::portable) return left;
  if (is_for_cpus(variant)) {
    left.cpu = true;
    left.grid_barrier = capabilities.grid_barrier;
    if (multiplies_integers(variant)) left.integer_dots = capabilities.integer_dots;
    left.bf16_dots = capabilities.bf16_dots && has_matrix_unit(variant);
    left.amx = capabilities.amx && variant == Variant::amx;
    return left;
  }
  capabilities.cpu = false;
  if (variant == Variant::mma) capabilities.matrix = MatrixInstruction::mma_sync;
  return capabilities;
}

Capabilities capabilities_of(const Device& device, Variant wanted, Precision precision) {
  return capped(all_capabilities(device), resolve(wanted, precision, device));
}

std::vector<std::pair<std::string, std::string>> described(const Capabilities& c) {
  const std::string size = c.sub_group_size == 0 ? "" : fmt::format(" of {}", c.sub_group_size);
  return {
      {"kernels for CPUs", std::string(yes_or_no(c.cpu))},
      {"vector registers", fmt::format("{} of {} floats", c.vectors.registers, c.vectors.floats)},
      {"integer dots", std::string(name_of(c.integer_dots))},
      {"bf16 dots", std::string(yes_or_no(c.bf16_dots))},
      {"AMX", std::string(yes_or_no(c.amx))},
      {"sub-groups with shuffle", fmt::format("{}{}", yes_or_no(c.sub_group_shuffle), size)},
      {"fp16", std::string(yes_or_no(c.fp16))},
      {"PTX", std::string(yes_or_no(c.ptx))},
      {"matrix instruction", std::string(name_of(c.matrix))},
      {"asynchronous copy", std::string(yes_or_no(c.asynchronous_copy))},
      {"grid barrier", std::string(yes_or_no(c.grid_barrier))},
      {"largest allocation", fmt::format("{} MiB", c.max_allocation_bytes >> 20U)},
      {"local memory", fmt::format("{} KiB", c.local_memory_bytes >> 10U)}};
}

}  // namespace clora
