// Kernel files for tests of clc lint.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tools/clc/lint.hpp"
#include "tools/clc/process.hpp"

namespace clora::test {

// A folder of kernel files, which goes with the test.
class LintFolder : public testing::Test {
 protected:
  void SetUp() override {
    if (!has_program("clang-14")) GTEST_SKIP() << "clang-14 is not there";
    folder_ = std::filesystem::temp_directory_path() / ("clc_lint_" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name) << text;
    return (folder_ / name).string();
  }

  std::vector<Finding> findings(const std::string& text, const std::vector<BuildSet>& sets = {},
                                const std::string& name = "test.cl", bool house = false) const {
    const KernelFile file = open_kernel_file(write(name, text));
    return lint(file, sets.empty() ? file.head.builds : sets, {.house = house});
  }

  // "rule line", without notes on restrict, which most kernels here earn.
  std::vector<std::string> found(const std::string& text, const std::vector<BuildSet>& sets = {},
                                 const std::string& name = "test.cl", bool house = false) const {
    std::vector<std::string> told;
    for (const Finding& each : findings(text, sets, name, house)) {
      if (each.rule == "non-restrict-pointer") continue;
      told.push_back(each.rule + " " + std::to_string(each.place.line));
    }
    return told;
  }

  std::filesystem::path folder_;
};

}  // namespace clora::test
