// Descriptor: an open file descriptor, closed at the end of its scope without changing errno.
#pragma once

#include <unistd.h>

#include <cerrno>
#include <utility>

namespace clora {

class Descriptor {
 public:
  // value: the result of open(). If it is negative, the open failed and there is nothing to close.
  explicit Descriptor(int value) noexcept : value_(value) {}
  Descriptor(Descriptor&& other) noexcept : value_(std::exchange(other.value_, -1)) {}
  Descriptor& operator=(Descriptor&&) = delete;
  ~Descriptor() {
    const int saved_errno = errno;
    if (value_ >= 0) ::close(value_);
    errno = saved_errno;
  }

  int value() const noexcept { return value_; }

 private:
  int value_;
};

}  // namespace clora
