#include "clora/runtime/commands/fence.hpp"

#include "runtime/device/opencl.hpp"

namespace clora {

void Fence::release() noexcept {
  if (event_ != nullptr && !health_->stuck()) clReleaseEvent(event_);
  event_ = nullptr;
}

Fence& Fence::operator=(Fence&& other) noexcept {
  if (this != &other) {
    release();
    event_ = std::exchange(other.event_, nullptr);
    health_ = std::move(other.health_);
  }
  return *this;
}

Fence::~Fence() { release(); }

void Fence::wait() const {
  if (event_ != nullptr) health_->wait(event_, "fence: wait");
}

bool Fence::passed() const { return event_ == nullptr || health_->passed(event_, "fence: passed"); }

std::optional<double> Fence::device_seconds() const {
  if (event_ == nullptr) return {};
  wait();
  cl_ulong start = 0, end = 0;
  const auto query = [&](cl_profiling_info what, cl_ulong& ns) {
    return clGetEventProfilingInfo(event_, what, sizeof ns, &ns, nullptr) == CL_SUCCESS;
  };
  if (!query(CL_PROFILING_COMMAND_START, start) || !query(CL_PROFILING_COMMAND_END, end)) return {};
  return end > start ? static_cast<double>(end - start) * 1e-9 : 0;
}

}  // namespace clora
