// Gate: a user event that blocks a device for as long as a test needs.
#pragma once

#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl.h>

#include "clora/runtime/context.hpp"

namespace clora::test {

class Gate {
 public:
  explicit Gate(const Context& context)
      : event_(clCreateUserEvent(context.opencl_context(), nullptr)) {}
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;
  // Opens the gate, so that the driver can shut down.
  ~Gate() {
    open();
    clReleaseEvent(event_);
  }

  // status: CL_COMPLETE, or the negative status of a failed command. Only the first call has an
  // effect.
  void open(cl_int status = CL_COMPLETE) {
    if (!open_) clSetUserEventStatus(event_, status);
    open_ = true;
  }
  const cl_event& event() const { return event_; }

 private:
  cl_event event_;
  bool open_ = false;
};

}  // namespace clora::test
