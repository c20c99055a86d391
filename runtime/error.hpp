// Errors of the library: one exception type with a code and, if there is one, the OpenCL status.
// The library throws; it never prints, exits or aborts.
//
// A message has the form "who: what was required, what was got, what to do", for example
//   rms_norm: w must be [768] to match x [4, 768], got [512]
#pragma once

#include <stdexcept>
#include <string>

namespace clora {

enum class ErrorCode {
  invalid_argument,  // a caller violated a REQUIRES
  invalid_file,      // a file is damaged, truncated or not of the expected format
  invalid_data,      // a data set record cannot be used
  unsupported,       // valid but not supported: an architecture, a type, a precision
  not_found,         // a file, kernel or tensor does not exist
  io,                // the operating system refused: permission, full disk
  no_device,         // no OpenCL device, or none that matches
  out_of_memory,     // the request does not fit the device or the pool's limit
  build_failed,      // a kernel does not compile; the message has options and log
  device,            // an OpenCL call failed
  device_lost,       // the Context cannot be used any more (runtime/device/device_health.hpp)
  diverged,          // training reached a loss that is not finite
  cancelled,         // the caller asked to stop
};

class Error : public std::runtime_error {
 public:
  // status: the OpenCL status that caused the error; 0 if none did.
  Error(ErrorCode code, const std::string& message, int status = 0)
      : std::runtime_error(message), code_(code), status_(status) {}

  ErrorCode code() const noexcept { return code_; }
  int opencl_status() const noexcept { return status_; }

 private:
  ErrorCode code_;
  int status_;
};

}  // namespace clora
