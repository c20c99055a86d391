// Exceptions from the rules of clc lint, stated in a kernel file:
//
//   y[m * C + c] = 0;  // clc: allow index-overflow C is at most 64
//   //! clc: allow RULE REASON      in the file's head: for all of it (file_head.hpp)
//
// The first form applies to its own line, or to the next code line if it is alone on its line.
#pragma once

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tools/clc/kernel_file/kernel_file.hpp"
#include "tools/clc/kernel_file/source_locations.hpp"
#include "tools/clc/lint/lint_finding.hpp"

namespace clora {

class Silence {
 public:
  Silence(const KernelFile& file, const SourceLocations& locations);

  // Whether the file allows the finding, at its location or at the expansion of its macro.
  bool covers(const LintFinding& finding) const;

  // Findings of the rule allow-without-reason: exceptions with an unknown rule or without a reason.
  const std::vector<LintFinding>& mistakes() const noexcept { return mistakes_; }

 private:
  void read_line(const SourceLocations& locations, int line);
  bool check(const std::string& rule, const std::string& reason, const SourceLocation& location);

  std::set<std::string> everywhere_;                           // rules
  std::set<std::pair<std::string, SourceLocation>> at_lines_;  // column 0
  std::vector<LintFinding> mistakes_;
};

}  // namespace clora
