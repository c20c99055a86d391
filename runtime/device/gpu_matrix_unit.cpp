#include "runtime/device/gpu_matrix_unit.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "runtime/device/opencl.hpp"
#include "runtime/fail.hpp"

namespace clora {
namespace {

constexpr cl_uint kAmd = 0x1002, kIntel = 0x8086;  // PCI vendors

// Values of a query; none if the driver does not know it.
template <class T>
std::vector<T> values_of(cl_device_id id, cl_device_info what) {
  std::size_t bytes = 0;
  if (clGetDeviceInfo(id, what, 0, nullptr, &bytes) != CL_SUCCESS) return {};
  std::vector<T> values(bytes / sizeof(T));
  if (clGetDeviceInfo(id, what, bytes, values.data(), nullptr) != CL_SUCCESS) return {};
  return values;
}

// cl_nv_device_attribute_query: NVIDIA's driver only.
MatrixUnit nvidia_matrix_unit_of(cl_device_id id) {
  constexpr cl_device_info kComputeCapabilityMajor = 0x4000;
  cl_uint major = 0;
  const cl_int status = clGetDeviceInfo(id, kComputeCapabilityMajor, sizeof major, &major, nullptr);
  if (status == CL_INVALID_VALUE) return MatrixUnit::none;  // the driver lacks the extension
  check_opencl(status, "clGetDeviceInfo");
  if (major == 9) return MatrixUnit::wgmma;  // only sm_90 has it
  return major >= 8 ? MatrixUnit::mma : MatrixUnit::none;
}

MatrixUnit intel_matrix_unit_of(cl_device_id id) {
  constexpr std::string_view kExtension = "cl_intel_subgroup_matrix_multiply_accumulate";
  constexpr cl_device_info kSubGroupSizes = 0x4108;  // cl_intel_required_subgroup_size
  std::vector<char> text = values_of<char>(id, CL_DEVICE_EXTENSIONS);
  std::ranges::replace(text, '\0', ' ');
  const std::string extensions = fmt::format(" {} ", fmt::join(text, ""));
  if (extensions.find(fmt::format(" {} ", kExtension)) == std::string::npos) {
    return MatrixUnit::none;
  }
  // The unit's sub-groups have the smallest size, 8 or 16. Only 16 has a header in cl/matrix.
  const auto sizes = values_of<std::size_t>(id, kSubGroupSizes);
  const bool sixteen = !sizes.empty() && std::ranges::min(sizes) == 16;
  return sixteen ? MatrixUnit::xmx : MatrixUnit::none;
}

}  // namespace

MatrixUnit amd_matrix_unit_of(std::string_view processor) {
  constexpr std::array kCdna{"gfx90a", "gfx940", "gfx941", "gfx942", "gfx950"};
  const std::string_view name = processor.substr(0, processor.find(':'));
  if (std::ranges::find(kCdna, name) != kCdna.end()) return MatrixUnit::mfma;
  if (name.size() == 7 && name.starts_with("gfx11")) return MatrixUnit::wmma_gfx11;
  if (name.size() == 7 && name.starts_with("gfx120")) return MatrixUnit::wmma_gfx12;
  return MatrixUnit::none;
}

MatrixUnit gpu_matrix_unit_of(const Device& device) {
  if (has_nvidia_driver(device)) return nvidia_matrix_unit_of(device.id);
  const auto vendor = values_of<cl_uint>(device.id, CL_DEVICE_VENDOR_ID);
  if (vendor == std::vector{kAmd}) return amd_matrix_unit_of(device.name);
  return vendor == std::vector{kIntel} ? intel_matrix_unit_of(device.id) : MatrixUnit::none;
}

}  // namespace clora
