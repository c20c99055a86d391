// Each test runs in a process of its own, since the environment is the process's.
#include "clora/runtime/device/driver_threads.hpp"

#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

namespace clora {
namespace {

// The exit status of a process: whether POCL_AFFINITY is `value` after the call.
[[noreturn]] void pin_and_compare(const std::string& value) {
  pin_driver_threads();
  const char* set = std::getenv("POCL_AFFINITY");
  std::exit(value == (set == nullptr ? "" : set) ? 0 : 1);
}

void allow(int processors) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (int i = 0; i < processors; ++i) CPU_SET(static_cast<unsigned>(i), &set);
  if (sched_setaffinity(0, sizeof set, &set) != 0) std::exit(2);
}

int processors() { return static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN)); }

class DriverThreads : public testing::Test {
 protected:
  void SetUp() override {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    for (const char* name : {"POCL_AFFINITY", "POCL_MAX_PTHREAD_COUNT", "POCL_CPU_MAX_CU_COUNT"}) {
      (void)unsetenv(name);
    }
    cpu_set_t set;
    ASSERT_EQ(sched_getaffinity(0, sizeof set, &set), 0);
    if (CPU_COUNT(&set) < processors()) GTEST_SKIP() << "this process has not all processors";
  }
};

TEST_F(DriverThreads, ArePinnedIfTheProcessMayUseAllProcessors) {
  EXPECT_EXIT(pin_and_compare("1"), testing::ExitedWithCode(0), "");
}

TEST_F(DriverThreads, AreLeftAloneInASubsetOfTheProcessors) {
  if (processors() < 2) GTEST_SKIP() << "there is one processor";
  EXPECT_EXIT((allow(processors() - 1), pin_and_compare("")), testing::ExitedWithCode(0), "");
}

// pocl aborts if a thread has no processor.
TEST_F(DriverThreads, AreLeftAloneIfTheirNumberIsSet) {
  for (const char* name : {"POCL_MAX_PTHREAD_COUNT", "POCL_CPU_MAX_CU_COUNT"}) {
    EXPECT_EXIT(((void)setenv(name, "64", 1), pin_and_compare("")), testing::ExitedWithCode(0), "");
  }
}

TEST_F(DriverThreads, FollowTheVariableIfItIsSet) {
  EXPECT_EXIT(((void)setenv("POCL_AFFINITY", "0", 1), pin_and_compare("0")),
              testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace clora
