// Kernel files for tests of clc lint.
#pragma once

#include <string>
#include <vector>

#include "tests/support/clang_folder.hpp"
#include "tools/clc/lint/lint.hpp"

namespace clora::test {

class LintFolder : public ClangFolder {
 protected:
  std::vector<LintFinding> findings(const std::string& text, const std::vector<BuildSet>& sets = {},
                                    const std::string& name = "test.cl", bool house = false) const {
    const KernelFile file = open_kernel_file(write(name, text));
    return lint(file, sets.empty() ? file.head.builds : sets, {.house = house});
  }

  // "rule line", without notes on restrict, which apply to most kernels here.
  std::vector<std::string> found(const std::string& text, const std::vector<BuildSet>& sets = {},
                                 const std::string& name = "test.cl", bool house = false) const {
    std::vector<std::string> lines;
    for (const LintFinding& each : findings(text, sets, name, house)) {
      if (each.rule == "non-restrict-pointer") continue;
      lines.push_back(each.rule + " " + std::to_string(each.location.line));
    }
    return lines;
  }
};

}  // namespace clora::test
