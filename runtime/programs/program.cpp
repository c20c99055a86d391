#include "runtime/programs/program.hpp"

#include <algorithm>
#include <array>

#include "clora/runtime/device/device.hpp"
#include "runtime/device/hopper_ptx.hpp"
#include "runtime/fail.hpp"
#include "runtime/programs/kernel_text.hpp"

namespace clora {
namespace {

std::string build_log(cl_program program, cl_device_id device) {
  std::size_t bytes = 0;
  clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, 0, nullptr, &bytes);
  std::string log(bytes, '\0');
  clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, bytes, log.data(), nullptr);
  log.resize(std::min(log.find('\0'), log.size()));
  return log;
}

// A caller's context may have several devices; a program then covers all of them.
std::vector<cl_device_id> devices_of(cl_program program) {
  cl_uint count = 0;
  check_opencl(clGetProgramInfo(program, CL_PROGRAM_NUM_DEVICES, sizeof count, &count, nullptr),
               "program: clGetProgramInfo");
  std::vector<cl_device_id> devices(count);
  check_opencl(clGetProgramInfo(program, CL_PROGRAM_DEVICES, count * sizeof(cl_device_id),
                                devices.data(), nullptr),
               "program: clGetProgramInfo");
  return devices;
}

#if defined(__aarch64__)
// LLVM inlines a function only into functions that have all of its features. On ARM, Debian's pocl
// 3.1 compiles OpenCL's built-in functions with the features below and programs without them, so
// that every fma and vload is a call. The #line directive at the beginning of a program's text
// corrects the numbers of its lines.
std::array<const char*, 3> with_inlined_builtins(cl_device_id device, const std::string& source) {
  constexpr const char* kBegin =
      "#if defined(__aarch64__) && defined(__clang__)\n"
      "#pragma clang attribute push(__attribute__((target(\"neon,outline-atomics,v8a\"))), "
      "apply_to = function)\n"
      "#endif\n";
  constexpr const char* kEnd =
      "\n#if defined(__aarch64__) && defined(__clang__)\n"
      "#pragma clang attribute pop\n"
      "#endif\n";
  if (describe_device(device).kind != DeviceKind::cpu) return {"", source.c_str(), ""};
  return {kBegin, source.c_str(), kEnd};
}
#else
std::array<const char*, 1> with_inlined_builtins(cl_device_id, const std::string& source) {
  return {source.c_str()};  // Drivers for other processors inline them.
}
#endif

// Errors: build_failed, also if the driver refuses the new PTX.
std::shared_ptr<const Program> rebuilt_for_hopper(const Program& program, cl_context context,
                                                  cl_device_id device, const std::string& file) {
  const std::vector<std::byte> binary = program.binary(device);
  const std::string ptx = with_hopper_instructions(
      std::string(reinterpret_cast<const char*>(binary.data()), binary.size()));
  try {
    return Program::from_binary(context, device, std::as_bytes(std::span(ptx)), "");
  } catch (const Error& error) {
    fail(ErrorCode::build_failed, "program cache: {} for sm_90a: {}", file, error.what());
  }
}

}  // namespace

std::string without_warnings(const std::string& options) { return options + " -w"; }

std::shared_ptr<const Program> Program::from_source(cl_context context, cl_device_id device,
                                                    const std::string& source,
                                                    const std::string& file,
                                                    const std::string& options) {
  std::array texts = with_inlined_builtins(device, source);
  cl_int status = CL_SUCCESS;
  OwnedProgram program(
      clCreateProgramWithSource(context, texts.size(), texts.data(), nullptr, &status));
  check_opencl(status, "clCreateProgramWithSource");
  status = clBuildProgram(program.get(), 1, &device, options.c_str(), nullptr, nullptr);
  if (status != CL_SUCCESS) {
    throw Error(ErrorCode::build_failed,
                fmt::format("program cache: {} does not build with options '{}': {}\n{}", file,
                            options, opencl_status_text(status),
                            name_locations(build_log(program.get(), device), source)),
                status);
  }
  auto built = std::make_shared<const Program>(std::move(program));
  return has_hopper_instructions(source) ? rebuilt_for_hopper(*built, context, device, file)
                                         : built;
}

std::shared_ptr<const Program> Program::from_binary(cl_context context, cl_device_id device,
                                                    std::span<const std::byte> binary,
                                                    const std::string& options) {
  const auto* data = reinterpret_cast<const unsigned char*>(binary.data());
  const std::size_t bytes = binary.size();
  cl_int status = CL_SUCCESS;
  cl_int binary_status = CL_SUCCESS;
  OwnedProgram program(
      clCreateProgramWithBinary(context, 1, &device, &bytes, &data, &binary_status, &status));
  check_opencl(status, "clCreateProgramWithBinary");
  check_opencl(binary_status, "clCreateProgramWithBinary");
  check_opencl(clBuildProgram(program.get(), 1, &device, options.c_str(), nullptr, nullptr),
               "clBuildProgram of a binary");
  return std::make_shared<const Program>(std::move(program));
}

std::string Program::log(cl_device_id device) const { return build_log(handle(), device); }

std::vector<std::byte> Program::binary(cl_device_id device) const {
  const std::vector<cl_device_id> devices = devices_of(handle());
  std::vector<std::size_t> sizes(devices.size());
  check_opencl(clGetProgramInfo(handle(), CL_PROGRAM_BINARY_SIZES,
                                sizes.size() * sizeof(std::size_t), sizes.data(), nullptr),
               "program: CL_PROGRAM_BINARY_SIZES");
  const auto at =
      static_cast<std::size_t>(std::distance(devices.begin(), std::ranges::find(devices, device)));
  require(at < devices.size() && sizes[at] > 0, "program: the driver returned no binary");
  std::vector<std::byte> bytes(sizes[at]);
  std::vector<unsigned char*> binaries(devices.size(), nullptr);  // null: not requested
  binaries[at] = reinterpret_cast<unsigned char*>(bytes.data());
  check_opencl(clGetProgramInfo(handle(), CL_PROGRAM_BINARIES,
                                binaries.size() * sizeof(unsigned char*), binaries.data(), nullptr),
               "program: CL_PROGRAM_BINARIES");
  return bytes;
}

}  // namespace clora
