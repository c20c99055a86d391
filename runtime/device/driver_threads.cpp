#include "clora/runtime/device/driver_threads.hpp"

#include <sched.h>
#include <unistd.h>

#include <cstdlib>

namespace clora {
namespace {

bool is_set(const char* name) noexcept { return std::getenv(name) != nullptr; }

// Whether the calling thread may run on the processors 0 to n - 1, where n is how many there are.
bool may_use_all_processors() noexcept {
#ifdef __linux__
  const long processors = sysconf(_SC_NPROCESSORS_ONLN);
  cpu_set_t allowed;
  if (processors < 1 || sched_getaffinity(0, sizeof allowed, &allowed) != 0) return false;
  for (long i = 0; i < processors; ++i) {
    if (!CPU_ISSET(static_cast<unsigned>(i), &allowed)) return false;
  }
  return true;
#else
  return false;
#endif
}

}  // namespace

void pin_driver_threads() noexcept {
  const bool counted = is_set("POCL_MAX_PTHREAD_COUNT") || is_set("POCL_CPU_MAX_CU_COUNT");
  if (!counted && may_use_all_processors()) (void)setenv("POCL_AFFINITY", "1", 0);
}

}  // namespace clora
