// clc lint of one kernel file: each set of options is read, and what all of them show is one list.
#pragma once

#include <vector>

#include "tools/clc/kernel_file.hpp"
#include "tools/clc/lint_finding.hpp"

namespace clora {

struct LintOptions {
  bool house = false;  // rules of this project's style, too
};

// Findings by location; one that several sets show is there once, with the first of them.
// sets: what to read the file with; of an empty list, without options.
// Errors: as read_with_clang().
std::vector<Finding> lint(const KernelFile& file, const std::vector<BuildSet>& sets,
                          const LintOptions& options = {});

}  // namespace clora
