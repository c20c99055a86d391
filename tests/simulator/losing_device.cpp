// Loses the OpenCL device of a program that runs: once the file named by LOSE_DEVICE_FILE exists,
// every further call fails with CL_DEVICE_NOT_AVAILABLE. A library to preload, together with
// support/opencl_faults.cpp, as tests/server/test_lost_device.py does.
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>

#include "tests/support/opencl_faults.hpp"

namespace {

void lose_when_present(const std::string& file) {
  while (!std::filesystem::exists(file)) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  clora::test::lose_device_at(1);
}

// The thread runs until the program ends.
const bool watches = [] {
  const char* const file = std::getenv("LOSE_DEVICE_FILE");
  if (file != nullptr) std::thread(lose_when_present, std::string(file)).detach();
  return file != nullptr;
}();

}  // namespace
