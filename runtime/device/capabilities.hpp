// Capabilities: what kernels may use on a device. Read from the Device once; a Context's are capped
// by its variant (runtime/device/variant.hpp), so that implementations ask for what they need
// instead of comparing variants.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "clora/runtime/device/device.hpp"
#include "clora/runtime/device/variant.hpp"

namespace clora {

// The instructions of a GPU that multiply matrices. mma_sync: NVIDIA from sm_80 on. wgmma: sm_90,
// which has mma_sync, too. mfma, wmma: AMD's CDNA and RDNA. xmx: Intel's, as an OpenCL extension.
enum class MatrixInstruction { none, mma_sync, wgmma, mfma, wmma, xmx };
std::string_view name_of(MatrixInstruction instruction);

struct Capabilities {
  bool cpu = false;  // kernels for CPU devices: work-groups of one item with wide vectors
  CpuVectors vectors = {};
  IntegerDots integer_dots = IntegerDots::none;
  bool bf16_dots = false;  // of pairs, on a CPU
  bool amx = false;
  bool sub_group_shuffle = false;
  std::uint32_t sub_group_size = 0;  // 0: known only for a built kernel, or no sub-groups
  bool fp16 = false;                 // arithmetic, cl_khr_fp16
  bool ptx = false;                  // in OpenCL C
  MatrixInstruction matrix = MatrixInstruction::none;
  bool asynchronous_copy = false;  // from global to local memory, past the registers
  bool grid_barrier = false;       // the driver runs all work-groups of a launch at once
  std::uint64_t max_allocation_bytes = 0;
  std::uint64_t local_memory_bytes = 0;

  // Whether large products round their operands to bf16, as every matrix unit does.
  bool rounds_products() const noexcept { return bf16_dots || has_gpu_matrices(); }
  // Whether activations that products read are stored as bf16: true if products round them anyway
  // and the other ops are limited by memory bandwidth.
  bool hands_on_bf16() const noexcept { return has_gpu_matrices(); }
  bool has_gpu_matrices() const noexcept { return matrix != MatrixInstruction::none; }
  // Whether the matrix unit is one that the developers have compiled for and emulated, but not run.
  bool has_unproven_matrices() const noexcept {
    return has_gpu_matrices() && matrix != MatrixInstruction::mma_sync &&
           matrix != MatrixInstruction::wgmma;
  }
  // Whether kernels are plain OpenCL C 1.2: those that need more are not used.
  bool is_plain() const noexcept { return !cpu && !ptx && !has_gpu_matrices(); }

  bool operator==(const Capabilities&) const = default;
};

// Everything that the device has.
Capabilities all_capabilities(const Device& device);
// What kernels of the variant may use of it. portable: plain OpenCL C 1.2.
Capabilities capped(Capabilities capabilities, Variant variant);
// Those of a Context with this configuration. Errors: those of resolve().
Capabilities capabilities_of(const Device& device, Variant wanted, Precision precision);

// Each capability with its value, for display: {"integer dots", "avx2"}.
std::vector<std::pair<std::string, std::string>> described(const Capabilities& capabilities);

}  // namespace clora
