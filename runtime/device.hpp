// Device: what an OpenCL device is, read once. A value; copying it copies no OpenCL object.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/opencl_handles.hpp"

namespace clora {

enum class DeviceKind { cpu, gpu, other };

// What multiplies matrices faster than f32 does, and OpenCL C can reach.
// avx512_bf16: pocl on x86 CPUs with dot products of bf16 pairs. amx: those that have matrix tiles,
// too, where the operating system lets this process use them. mma: NVIDIA GPUs from sm_80 on, by
// instructions of a warp. wgmma: sm_90, which has those of a warp group, too.
enum class MatrixUnit { none, avx512_bf16, amx, mma, wgmma };

struct Device {
  int index = -1;  // position in list_devices(); -1 for a device that a caller handed in
  std::string name;
  std::string platform;
  std::string vendor;
  std::string driver;
  std::string opencl_version;  // "OpenCL 3.0 ..."
  DeviceKind kind = DeviceKind::other;
  MatrixUnit matrix_unit = MatrixUnit::none;
  bool int8_dots = false;  // pocl on x86 CPUs with avx512_vnni: sums of products of bytes
  std::uint32_t compute_units = 0;
  std::uint64_t memory_bytes = 0;
  std::uint64_t max_allocation_bytes = 0;
  std::uint64_t local_memory_bytes = 0;
  std::uint32_t base_alignment_bytes = 1;  // offsets of sub-buffers are multiples of this
  std::size_t max_work_group_size = 1;
  cl_device_id id = nullptr;
};

std::string_view name_of(DeviceKind kind);
std::string_view name_of(MatrixUnit unit);

// Every device of every platform, in platform order; empty where there is none. From any thread:
// calls wait for one another, since a driver's first call need not be safe. A program that calls
// OpenCL itself from another thread meanwhile must have made its own first call before.
std::vector<Device> list_devices();

// The device a selector means: "" (the first GPU, else the first device), an index, "cpu", "gpu",
// or a part of a device's or platform's name in any case. Errors: no_device, with what there is, or
// with the package that brings one where there is nothing.
Device select_device(std::string_view selector);

// The facts of a caller's device.
Device describe_device(cl_device_id id);

}  // namespace clora
