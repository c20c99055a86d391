// Program: the built cl_program of a Kernel. For the .cpp files of runtime/ only.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/device/opencl.hpp"

namespace clora {

// `options` of a build whose warnings nobody reads. Drivers based on clang (pocl, NVIDIA's) print
// the number of warnings of each build to the process's standard error: hundreds for wide vectors
// on a CPU without AVX-512. Errors appear with and without the option (OpenCL 1.2,
// section 5.6.4.5).
std::string without_warnings(const std::string& options);

class Program {
 public:
  explicit Program(OwnedProgram handle) : handle_(std::move(handle)) {}

  // `file` names the text in messages. A text with Hopper's instructions
  // (runtime/device/hopper_ptx.hpp) is built twice. Errors: build_failed with options and the
  // compiler's log.
  static std::shared_ptr<const Program> from_source(cl_context context, cl_device_id device,
                                                    const std::string& source,
                                                    const std::string& file,
                                                    const std::string& options);
  // Errors: device, if the driver refuses the binary.
  static std::shared_ptr<const Program> from_binary(cl_context context, cl_device_id device,
                                                    std::span<const std::byte> binary,
                                                    const std::string& options);

  cl_program handle() const noexcept { return handle_.get(); }
  // The compiler's output of the build: warnings, and whatever the options request.
  std::string log(cl_device_id device) const;
  // The driver's data for building the program again without its source. Errors: device.
  std::vector<std::byte> binary(cl_device_id device) const;

 private:
  OwnedProgram handle_;
};

}  // namespace clora
