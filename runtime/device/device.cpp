#include "clora/runtime/device/device.hpp"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <mutex>

#include "clora/runtime/device/driver_diagnosis.hpp"
#include "runtime/device/gpu_matrix_unit.hpp"
#include "runtime/device/opencl.hpp"
#include "runtime/fail.hpp"
#include "runtime/parse_integer.hpp"
#if defined(__x86_64__)
#include <sys/platform/x86.h>
#endif

namespace clora {
namespace {

// Drivers initialise on the first device query, and not all of them are thread-safe there: pocl 3.1
// crashes if two threads make the first query at once. This is the only state that Contexts share;
// it is constant-initialised and never destroyed.
constinit std::mutex enumeration;

std::string text_of(cl_device_id device, cl_device_info what) {
  std::size_t bytes = 0;
  check_opencl(clGetDeviceInfo(device, what, 0, nullptr, &bytes), "clGetDeviceInfo");
  std::string text(bytes, '\0');
  check_opencl(clGetDeviceInfo(device, what, bytes, text.data(), nullptr), "clGetDeviceInfo");
  text.resize(std::min(text.find('\0'), text.size()));
  return text;
}

template <class T>
T number_of(cl_device_id device, cl_device_info what) {
  T value{};
  check_opencl(clGetDeviceInfo(device, what, sizeof value, &value, nullptr), "clGetDeviceInfo");
  return value;
}

std::string platform_name(cl_platform_id platform) {
  std::size_t bytes = 0;
  check_opencl(clGetPlatformInfo(platform, CL_PLATFORM_NAME, 0, nullptr, &bytes),
               "clGetPlatformInfo");
  std::string text(bytes, '\0');
  check_opencl(clGetPlatformInfo(platform, CL_PLATFORM_NAME, bytes, text.data(), nullptr),
               "clGetPlatformInfo");
  text.resize(std::min(text.find('\0'), text.size()));
  return text;
}

DeviceKind kind_of(cl_device_id id) {
  const auto type = number_of<cl_device_type>(id, CL_DEVICE_TYPE);
  if ((type & CL_DEVICE_TYPE_CPU) != 0) return DeviceKind::cpu;
  if ((type & CL_DEVICE_TYPE_GPU) != 0) return DeviceKind::gpu;
  return DeviceKind::other;
}

#if defined(__x86_64__)
// Linux grants the tile registers on request, to a process with all its threads:
// Documentation/arch/x86/xstate.rst of the kernel. Repeated requests are allowed.
bool may_use_matrix_tiles() {
  constexpr long kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr long kTileData = 18;
  return ::syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

MatrixUnit matrix_unit_of_processor() {
  if (!CPU_FEATURE_ACTIVE(AVX512_BF16)) return MatrixUnit::none;
  const bool amx = CPU_FEATURE_ACTIVE(AMX_BF16) && may_use_matrix_tiles();
  return amx ? MatrixUnit::amx : MatrixUnit::avx512_bf16;
}

IntegerDots integer_dots_of_processor() {
  if (CPU_FEATURE_ACTIVE(AVX512_VNNI)) return IntegerDots::avx512_vnni;
  if (!CPU_FEATURE_ACTIVE(AVX2) || !CPU_FEATURE_ACTIVE(F16C)) return IntegerDots::none;
  return CPU_FEATURE_ACTIVE(AVX_VNNI) ? IntegerDots::avx_vnni : IntegerDots::avx2;
}
#endif

// CPU drivers compile for the processor that this process runs on. glibc lists its features, rather
// than the compiler, so that tests/simulator/cpu_without_avx512.cpp can hide some.
CpuVectors vectors_of_processor() {
#if defined(__x86_64__)
  if (CPU_FEATURE_ACTIVE(AVX512F)) return kAvx512Vectors;
  if (CPU_FEATURE_ACTIVE(AVX2) && CPU_FEATURE_ACTIVE(FMA)) return kAvx2Vectors;
  return {};
#elif defined(__aarch64__)
  return kNeonVectors;
#else
  return {};
#endif
}

// pocl also supports clang's builtins for the processor's instructions; other CPU drivers do not.
void describe_processor(Device& device) {
  if (device.kind != DeviceKind::cpu) return;
  device.vectors = vectors_of_processor();
#if defined(__x86_64__)
  if (!is_pocl(device)) return;
  device.matrix_unit = matrix_unit_of_processor();
  device.integer_dots = integer_dots_of_processor();
#endif
}

// Vendors' queries; in OpenCL itself the size is a property of a built kernel. A driver that
// supports several sizes reports them in ascending order.
std::uint32_t sub_group_size_of(cl_device_id id) {
  constexpr cl_device_info kNvidiaWarp = 0x4003, kAmdWavefront = 0x4043, kIntelSizes = 0x4108;
  for (const cl_device_info what : {kNvidiaWarp, kAmdWavefront}) {
    cl_uint size = 0;
    if (clGetDeviceInfo(id, what, sizeof size, &size, nullptr) == CL_SUCCESS) return size;
  }
  std::array<std::size_t, 8> sizes{};
  std::size_t bytes = 0;
  if (clGetDeviceInfo(id, kIntelSizes, sizeof sizes, sizes.data(), &bytes) != CL_SUCCESS) return 0;
  const std::size_t count = std::min(bytes / sizeof(std::size_t), sizes.size());
  return count == 0 ? 0 : static_cast<std::uint32_t>(sizes.at(count - 1));
}

std::vector<cl_platform_id> platforms() {
  cl_uint count = 0;
  const cl_int status = clGetPlatformIDs(0, nullptr, &count);
  if (status == -1001 || count == 0) return {};  // the loader found no driver
  check_opencl(status, "clGetPlatformIDs");
  std::vector<cl_platform_id> found(count);
  check_opencl(clGetPlatformIDs(count, found.data(), nullptr), "clGetPlatformIDs");
  return found;
}

// A platform whose query fails counts as having no devices; the other platforms remain usable.
std::vector<cl_device_id> devices_of(cl_platform_id platform) {
  cl_uint count = 0;
  const cl_int status = clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 0, nullptr, &count);
  if (status != CL_SUCCESS || count == 0) return {};
  std::vector<cl_device_id> found(count);
  check_opencl(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, count, found.data(), nullptr),
               "clGetDeviceIDs");
  return found;
}

[[noreturn]] void fail_without_device() {
  const std::lock_guard lock(enumeration);
  std::vector<EmptyPlatform> empty;
  for (cl_platform_id platform : platforms()) {
    cl_uint count = 0;
    const cl_int status = clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 0, nullptr, &count);
    empty.push_back({.name = platform_name(platform), .status = status});
  }
  throw Error(ErrorCode::no_device, why_no_device(empty));
}

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return result;
}

bool matches(const Device& device, const std::string& selector) {
  if (const auto index = parse_integer<int>(selector)) return device.index == *index;
  if (selector == "cpu") return device.kind == DeviceKind::cpu;
  if (selector == "gpu") return device.kind == DeviceKind::gpu;
  return lower(device.name).find(selector) != std::string::npos ||
         lower(device.platform).find(selector) != std::string::npos;
}

// The device that "cpu:N" or "gpu:N" selects: the N-th of its kind, from 0. end() if there is none.
std::vector<Device>::const_iterator find_of_kind(const std::vector<Device>& devices,
                                                 std::string_view selector) {
  if (!selector.starts_with("cpu:") && !selector.starts_with("gpu:")) return devices.end();
  const auto number = parse_integer<int>(selector.substr(4));
  const DeviceKind kind = selector.front() == 'c' ? DeviceKind::cpu : DeviceKind::gpu;
  int before = 0;
  return std::ranges::find_if(devices, [&](const Device& device) {
    return number && device.kind == kind && before++ == *number;
  });
}

std::string what_there_is(const std::vector<Device>& devices) {
  std::string text;
  for (const Device& device : devices) {
    text += fmt::format("{}{}: '{}' ({})", text.empty() ? "" : "; ", device.index, device.name,
                        name_of(device.kind));
  }
  return text;
}

}  // namespace

std::string_view name_of(DeviceKind kind) {
  switch (kind) {
    case DeviceKind::cpu:
      return "cpu";
    case DeviceKind::gpu:
      return "gpu";
    case DeviceKind::other:
      break;
  }
  return "other";
}

std::string_view name_of(IntegerDots dots) {
  switch (dots) {
    case IntegerDots::avx2:
      return "avx2";
    case IntegerDots::avx_vnni:
      return "avx_vnni";
    case IntegerDots::avx512_vnni:
      return "avx512_vnni";
    case IntegerDots::none:
      break;
  }
  return "none";
}

std::string_view name_of(MatrixUnit unit) {
  constexpr std::array<std::string_view, 9> kNames{
      "none", "avx512_bf16", "amx", "mma", "wgmma", "mfma", "wmma_gfx11", "wmma_gfx12", "xmx"};
  return kNames.at(static_cast<std::size_t>(unit));
}

bool is_pocl(const Device& device) { return device.platform == kPoclPlatform; }

bool has_nvidia_driver(const Device& device) { return device.platform == kNvidiaPlatform; }

Device describe_device(cl_device_id id) {
  Device device;
  device.id = id;
  device.name = text_of(id, CL_DEVICE_NAME);
  device.platform = platform_name(number_of<cl_platform_id>(id, CL_DEVICE_PLATFORM));
  device.vendor = text_of(id, CL_DEVICE_VENDOR);
  device.driver = text_of(id, CL_DRIVER_VERSION);
  device.opencl_version = text_of(id, CL_DEVICE_VERSION);
  device.kind = kind_of(id);
  describe_processor(device);
  if (device.kind == DeviceKind::gpu) device.matrix_unit = gpu_matrix_unit_of(device);
  device.compute_units = number_of<cl_uint>(id, CL_DEVICE_MAX_COMPUTE_UNITS);
  device.memory_bytes = number_of<cl_ulong>(id, CL_DEVICE_GLOBAL_MEM_SIZE);
  device.max_allocation_bytes = number_of<cl_ulong>(id, CL_DEVICE_MAX_MEM_ALLOC_SIZE);
  device.local_memory_bytes = number_of<cl_ulong>(id, CL_DEVICE_LOCAL_MEM_SIZE);
  // The query returns bits.
  device.base_alignment_bytes =
      std::max<cl_uint>(1, number_of<cl_uint>(id, CL_DEVICE_MEM_BASE_ADDR_ALIGN) / 8);
  device.max_work_group_size = number_of<std::size_t>(id, CL_DEVICE_MAX_WORK_GROUP_SIZE);
  device.extensions = text_of(id, CL_DEVICE_EXTENSIONS);
  if (device.kind == DeviceKind::gpu) device.sub_group_size = sub_group_size_of(id);
  return device;
}

std::vector<Device> list_devices() {
  const std::lock_guard lock(enumeration);
  std::vector<Device> found;
  for (cl_platform_id platform : platforms()) {
    for (cl_device_id id : devices_of(platform)) {
      found.push_back(describe_device(id));
      found.back().index = static_cast<int>(found.size()) - 1;
    }
  }
  return found;
}

Device select_device(std::string_view selector) {
  const std::vector<Device> devices = list_devices();
  if (devices.empty()) fail_without_device();
  if (selector.empty()) {
    const auto gpu = std::ranges::find(devices, DeviceKind::gpu, &Device::kind);
    return gpu == devices.end() ? devices.front() : *gpu;
  }
  const std::string wanted = lower(selector);
  auto found = find_of_kind(devices, wanted);
  if (found == devices.end()) {
    found = std::ranges::find_if(devices,
                                 [&](const Device& device) { return matches(device, wanted); });
  }
  if (found == devices.end()) {
    fail(ErrorCode::no_device, "device: no device matches '{}'; available devices: {}{}", selector,
         what_there_is(devices), drivers_that_do_not_load());
  }
  return *found;
}

}  // namespace clora
