// clc lint of one kernel file: parses it with each option set and merges the findings.
#pragma once

#include <vector>

#include "tools/clc/kernel_file/kernel_file.hpp"
#include "tools/clc/lint/lint_finding.hpp"

namespace clora {

struct LintOptions {
  bool house = false;  // also the rules of this project's style
};

// Findings in order of location; a finding of several sets is listed once, with the first set.
// sets: the option sets to parse the file with; if empty, it is parsed without options.
// Errors: those of read_with_clang().
std::vector<LintFinding> lint(const KernelFile& file, const std::vector<BuildSet>& sets,
                              const LintOptions& options = {});

}  // namespace clora
