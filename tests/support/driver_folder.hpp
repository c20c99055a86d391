// A test fixture with its own folder of registered OpenCL drivers (.icd files), empty at first.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "tests/support/test_files.hpp"

namespace clora::test {

class DriverFolder : public testing::Test {
 protected:
  DriverFolder() { std::filesystem::create_directory(vendors()); }

  std::filesystem::path vendors() const { return folder_ / "vendors"; }
  void add_driver(const char* name, const std::string& content) const {
    write_file(vendors() / name, content);
  }
  // Adds pocl as installed on this machine. Returns false if it is not installed.
  bool add_pocl() const {
    const std::filesystem::path installed = "/etc/OpenCL/vendors/pocl.icd";
    if (std::filesystem::exists(installed)) {
      std::filesystem::copy(installed, vendors() / "pocl.icd");
    }
    return std::filesystem::exists(installed);
  }

  TemporaryFolder folder_;
};

}  // namespace clora::test
