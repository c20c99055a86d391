#include "runtime/program_cache.hpp"

#include <utility>

#include "runtime/kernel_text.hpp"
#include "runtime/program.hpp"

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

}  // namespace

Defines& Defines::set(std::string_view name, std::string_view value) {
  text_ += fmt::format(" -D {}={}", name, value);
  return *this;
}

ProgramCache::ProgramCache(cl_context context, const Device& device,
                           std::filesystem::path kernel_folder)
    : context_(context), device_(device.id), kernel_folder_(std::move(kernel_folder)) {}

ProgramCache::~ProgramCache() = default;

Kernel ProgramCache::kernel(std::string_view file, std::string_view function,
                            const Defines& defines) {
  const std::string options = "-cl-std=CL1.2" + defines.text();
  const std::string key = fmt::format("{}|{}", file, options);
  const auto found = built_.find(key);
  if (found != built_.end()) return {found->second, std::string(function)};
  const auto failed = failed_.find(key);
  if (failed != failed_.end()) throw Error(ErrorCode::build_failed, failed->second);
  try {
    return {built_[key] = build(std::string(file), options), std::string(function)};
  } catch (const Error& error) {
    built_.erase(key);
    if (error.code() == ErrorCode::build_failed) failed_[key] = error.what();
    throw;
  }
}

std::shared_ptr<const Program> ProgramCache::build(const std::string& file,
                                                   const std::string& options) {
  const std::string text = kernel_text(file, kernel_folder_);
  const char* source = text.c_str();
  cl_int status = CL_SUCCESS;
  OwnedProgram program(clCreateProgramWithSource(context_, 1, &source, nullptr, &status));
  check_opencl(status, "clCreateProgramWithSource");
  status = clBuildProgram(program.get(), 1, &device_, options.c_str(), nullptr, nullptr);
  if (status != CL_SUCCESS) {
    throw Error(ErrorCode::build_failed,
                fmt::format("program cache: {} does not build with options '{}': {}\n{}", file,
                            options, opencl_status_text(status), build_log(program.get(), device_)),
                status);
  }
  return std::make_shared<const Program>(std::move(program));
}

}  // namespace clora
