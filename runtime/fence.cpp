#include "runtime/fence.hpp"

#include "runtime/opencl.hpp"

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

}  // namespace clora
