// Fixture for tests of commands that run clang: a folder for kernel files, and a skip if clang is
// not installed.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "tests/support/test_files.hpp"
#include "tools/command_line/process.hpp"

namespace clora::test {

class ClangFolder : public testing::Test {
 protected:
  void SetUp() override {
    if (!has_program("clang-14")) GTEST_SKIP() << "clang-14 is not installed";
  }

  // Writes the file and returns its path.
  std::string write(std::string_view name, std::string_view text) const {
    write_file(folder_ / name, text);
    return (folder_ / name).string();
  }

  TemporaryFolder folder_;
};

}  // namespace clora::test
