#include "runtime/fence.hpp"

#include "runtime/opencl.hpp"

namespace clora {

Fence& Fence::operator=(Fence&& other) noexcept {
  if (this != &other) {
    if (event_ != nullptr) clReleaseEvent(event_);
    event_ = std::exchange(other.event_, nullptr);
  }
  return *this;
}

Fence::~Fence() {
  if (event_ != nullptr) clReleaseEvent(event_);
}

void Fence::wait() const {
  if (event_ != nullptr) check_opencl(clWaitForEvents(1, &event_), "fence: clWaitForEvents");
}

bool Fence::passed() const {
  if (event_ == nullptr) return true;
  cl_int state = CL_QUEUED;
  check_opencl(
      clGetEventInfo(event_, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, nullptr),
      "fence: clGetEventInfo");
  check_opencl(state < 0 ? state : CL_SUCCESS, "fence: a command before it");
  return state == CL_COMPLETE;
}

}  // namespace clora
