#include "runtime/device/device_capabilities.hpp"

#include <fmt/format.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "runtime/device/opencl.hpp"

namespace clora {
namespace {

constexpr const char* kUnknown = "unknown";

std::string text_of(cl_device_id id, cl_device_info what) {
  std::size_t bytes = 0;
  if (clGetDeviceInfo(id, what, 0, nullptr, &bytes) != CL_SUCCESS) return kUnknown;
  std::string text(bytes, '\0');
  if (clGetDeviceInfo(id, what, bytes, text.data(), nullptr) != CL_SUCCESS) return kUnknown;
  text.resize(std::min(text.find('\0'), text.size()));
  text.resize(text.find_last_not_of(' ') + 1);
  return text;
}

template <class T>
std::string number_of(cl_device_id id, cl_device_info what, std::string_view unit) {
  T value{};
  if (clGetDeviceInfo(id, what, sizeof value, &value, nullptr) != CL_SUCCESS) return kUnknown;
  return fmt::format("{}{}{}", value, unit.empty() ? "" : " ", unit);
}

std::string kibibytes_of(cl_device_id id, cl_device_info what) {
  cl_ulong bytes = 0;
  if (clGetDeviceInfo(id, what, sizeof bytes, &bytes, nullptr) != CL_SUCCESS) return kUnknown;
  return fmt::format("{} KiB", bytes / 1024);
}

std::string item_sizes_of(cl_device_id id) {
  std::array<std::size_t, 3> sizes{};
  if (clGetDeviceInfo(id, CL_DEVICE_MAX_WORK_ITEM_SIZES, sizeof sizes, sizes.data(), nullptr) !=
      CL_SUCCESS) {
    return kUnknown;
  }
  return fmt::format("{} x {} x {}", sizes[0], sizes[1], sizes[2]);
}

// Native vector widths of char, int, half, float, double; 0: unsupported.
std::string vector_widths_of(cl_device_id id) {
  constexpr std::array kinds{std::pair{"char", CL_DEVICE_NATIVE_VECTOR_WIDTH_CHAR},
                             std::pair{"int", CL_DEVICE_NATIVE_VECTOR_WIDTH_INT},
                             std::pair{"half", CL_DEVICE_NATIVE_VECTOR_WIDTH_HALF},
                             std::pair{"float", CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT},
                             std::pair{"double", CL_DEVICE_NATIVE_VECTOR_WIDTH_DOUBLE}};
  std::string widths;
  for (const auto& [name, what] : kinds) {
    widths += fmt::format("{}{} {}", widths.empty() ? "" : ", ", name,
                          number_of<cl_uint>(id, static_cast<cl_device_info>(what), ""));
  }
  return widths;
}

std::string local_memory_of(cl_device_id id) {
  cl_device_local_mem_type type = CL_NONE;
  clGetDeviceInfo(id, CL_DEVICE_LOCAL_MEM_TYPE, sizeof type, &type, nullptr);
  return fmt::format("{}, {}", kibibytes_of(id, CL_DEVICE_LOCAL_MEM_SIZE),
                     type == CL_LOCAL ? "dedicated" : "in global memory");
}

std::string has(const std::string& extensions, std::string_view extension) {
  return (' ' + extensions + ' ').find(fmt::format(" {} ", extension)) == std::string::npos ? "no"
                                                                                            : "yes";
}

}  // namespace

std::vector<Capability> capabilities_of(const Device& device) {
  const cl_device_id id = device.id;
  const std::string extensions = text_of(id, CL_DEVICE_EXTENSIONS);
  return {
      {"OpenCL", device.opencl_version},
      {"OpenCL C", text_of(id, CL_DEVICE_OPENCL_C_VERSION)},
      {"driver", device.driver},
      {"compute units", number_of<cl_uint>(id, CL_DEVICE_MAX_COMPUTE_UNITS, "")},
      {"clock", number_of<cl_uint>(id, CL_DEVICE_MAX_CLOCK_FREQUENCY, "MHz")},
      {"work-group", number_of<std::size_t>(id, CL_DEVICE_MAX_WORK_GROUP_SIZE, "items")},
      {"work-group per dimension", item_sizes_of(id)},
      {"local memory", local_memory_of(id)},
      {"cache", kibibytes_of(id, CL_DEVICE_GLOBAL_MEM_CACHE_SIZE)},
      {"cache line", number_of<cl_uint>(id, CL_DEVICE_GLOBAL_MEM_CACHELINE_SIZE, "bytes")},
      {"constant buffer", kibibytes_of(id, CL_DEVICE_MAX_CONSTANT_BUFFER_SIZE)},
      {"arguments", number_of<std::size_t>(id, CL_DEVICE_MAX_PARAMETER_SIZE, "bytes")},
      {"buffer alignment", fmt::format("{} bytes", device.base_alignment_bytes)},
      {"native vector widths", vector_widths_of(id)},
      {"profiling timer", number_of<std::size_t>(id, CL_DEVICE_PROFILING_TIMER_RESOLUTION, "ns")},
      {"half precision", has(extensions, "cl_khr_fp16")},
      {"double precision", has(extensions, "cl_khr_fp64")},
      {"sub-groups", has(extensions, "cl_khr_subgroups")},
      {"64-bit atomics", has(extensions, "cl_khr_int64_base_atomics")},
      {"matrix unit", std::string(name_of(device.matrix_unit))},
      {"extensions", extensions}};
}

std::uint64_t cache_bytes_of(const Device& device) {
  cl_ulong bytes = 0;
  const cl_int status =
      clGetDeviceInfo(device.id, CL_DEVICE_GLOBAL_MEM_CACHE_SIZE, sizeof bytes, &bytes, nullptr);
  return status == CL_SUCCESS ? bytes : 0;
}

double clock_step_seconds(const Device& device) {
  std::size_t ns = 0;
  const cl_int status =
      clGetDeviceInfo(device.id, CL_DEVICE_PROFILING_TIMER_RESOLUTION, sizeof ns, &ns, nullptr);
  return status == CL_SUCCESS ? static_cast<double>(ns) * 1e-9 : 0;
}

bool processes_share_units(const Device& device) {
  if (!has_nvidia_driver(device)) return false;
  if (std::getenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE") != nullptr) return true;
  const char* folder = std::getenv("CUDA_MPS_PIPE_DIRECTORY");
  std::error_code ignored;
  return std::filesystem::exists(
      std::filesystem::path(folder == nullptr ? "/tmp/nvidia-mps" : folder) / "control", ignored);
}

std::string nvidia_processor_of(const Device& device) {
  // cl_nv_device_attribute_query: NVIDIA's driver only.
  constexpr cl_device_info kMajor = 0x4000, kMinor = 0x4001;
  cl_uint major = 0, minor = 0;
  if (!has_nvidia_driver(device)) return {};
  const auto query = [&](cl_device_info what, cl_uint& number) {
    return clGetDeviceInfo(device.id, what, sizeof number, &number, nullptr) == CL_SUCCESS;
  };
  if (!query(kMajor, major) || !query(kMinor, minor)) return {};
  return fmt::format("sm_{}{}", major, minor);
}

}  // namespace clora
