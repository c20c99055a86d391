// A scope that the leak sanitizer ignores: a stuck Context leaves its objects to the driver.
#pragma once

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/lsan_interface.h>
#endif

namespace clora::test {

class [[maybe_unused]] LeaksOnPurpose {
 public:
#if defined(__SANITIZE_ADDRESS__)
  LeaksOnPurpose() { __lsan_disable(); }
  ~LeaksOnPurpose() { __lsan_enable(); }
#else
  LeaksOnPurpose() = default;
#endif
  LeaksOnPurpose(const LeaksOnPurpose&) = delete;
  LeaksOnPurpose& operator=(const LeaksOnPurpose&) = delete;
};

}  // namespace clora::test
