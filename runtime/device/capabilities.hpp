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

  bool operator==(const Capabilities&) const = default;
};

// Everything that the device has.
Capabilities all_capabilities(const Device& device);
// What kernels of the variant may use of it. portable: plain OpenCL C 1.2.
Capabilities capped(Capabilities capabilities, Variant variant);

// Each capability with its value, for display: {"integer dots", "avx2"}.
std::vector<std::pair<std::string, std::string>> described(const Capabilities& capabilities);

}  // namespace clora
