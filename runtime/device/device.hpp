// Device: the properties of an OpenCL device, read once. A value type; copying it copies no OpenCL
// object.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "clora/runtime/device/opencl_handles.hpp"

namespace clora {

enum class DeviceKind { cpu, gpu, other };

// The unit that multiplies matrices faster than f32 and that OpenCL C can use.
// avx512_bf16: pocl on x86 CPUs with dot products of bf16 pairs. amx: such CPUs that also have
// matrix tiles, if the operating system lets this process use them. mma: NVIDIA GPUs from sm_80 on,
// with warp-level instructions. wgmma: sm_90, which also has warp-group instructions. mfma: AMD's
// CDNA GPUs from gfx90a on. wmma_gfx11, wmma_gfx12: AMD's RDNA3 and RDNA4. xmx: Intel's GPUs with
// sub-groups of 16 and cl_intel_subgroup_matrix_multiply_accumulate.
enum class MatrixUnit { none, avx512_bf16, amx, mma, wgmma, mfma, wmma_gfx11, wmma_gfx12, xmx };

// The instructions for dot products of bytes that kernels can use: pocl on x86 CPUs, through
// clang's builtins. avx_vnni: AVX-VNNI on a CPU without avx512_vnni.
enum class IntegerDots { none, avx2, avx_vnni, avx512_vnni };

// The vector registers that a CPU device's kernels are compiled for.
struct CpuVectors {
  std::uint32_t floats = 4;      // floats of a register
  std::uint32_t registers = 16;  // of that width
  bool operator==(const CpuVectors&) const = default;
};
inline constexpr CpuVectors kAvx512Vectors{.floats = 16, .registers = 32};
inline constexpr CpuVectors kAvx2Vectors{.floats = 8, .registers = 16};
inline constexpr CpuVectors kNeonVectors{.floats = 4, .registers = 32};

struct Device {
  int index = -1;  // position in list_devices(); -1 for a device passed in by a caller
  std::string name;
  std::string platform;
  std::string vendor;
  std::string driver;
  std::string opencl_version;  // "OpenCL 3.0 ..."
  DeviceKind kind = DeviceKind::other;
  MatrixUnit matrix_unit = MatrixUnit::none;
  IntegerDots integer_dots = IntegerDots::none;
  CpuVectors vectors;  // of a CPU device
  std::uint32_t compute_units = 0;
  std::uint64_t memory_bytes = 0;
  std::uint64_t max_allocation_bytes = 0;
  std::uint64_t local_memory_bytes = 0;
  std::uint32_t base_alignment_bytes = 1;  // offsets of sub-buffers are multiples of this
  std::size_t max_work_group_size = 1;
  std::string extensions;            // separated by spaces
  std::uint32_t sub_group_size = 0;  // items; 0 if the driver does not report it for the device
  cl_device_id id = nullptr;
};

// The names of two drivers' platforms. A GPU of NVIDIA may also be used through another driver.
inline constexpr std::string_view kPoclPlatform = "Portable Computing Language";
inline constexpr std::string_view kNvidiaPlatform = "NVIDIA CUDA";
bool is_pocl(const Device& device);
bool has_nvidia_driver(const Device& device);

std::string_view name_of(DeviceKind kind);
std::string_view name_of(MatrixUnit unit);
std::string_view name_of(IntegerDots dots);

// Lists every device of every platform, in platform order; empty if there is none. May be called
// from any thread: calls are serialised, because a driver's first call may not be thread-safe. A
// program that calls OpenCL itself from another thread at the same time must have completed its own
// first call before.
std::vector<Device> list_devices();

// Returns the device that a selector names: "" (the first GPU, else the first device), an index,
// "cpu", "gpu", "gpu:1" (the second GPU), or a case-insensitive part of a device's or platform's
// name. Errors: no_device, with the available devices, or the package that provides one.
Device select_device(std::string_view selector);

// The properties of a caller's device.
Device describe_device(cl_device_id id);

}  // namespace clora
