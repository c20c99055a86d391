// Exceptions from the rules of clc lint, as a kernel file states them:
//
//   y[m * C + c] = 0;  // clc: allow index-overflow C is at most 64
//   //! clc: allow RULE REASON      in the file's head: for all of it (file_head.hpp)
//
// The first is for its own line; where nothing else stands on it, for the next line that is no
// comment.
#pragma once

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tools/clc/kernel_file.hpp"
#include "tools/clc/lint_finding.hpp"
#include "tools/clc/source_locations.hpp"

namespace clora {

class Silence {
 public:
  Silence(const KernelFile& file, const SourceLocations& locations);

  // Whether the file allows what was found, where it is written or where its macro is used.
  bool covers(const Finding& finding) const;

  // Of rule allow-without-reason: exceptions that name no rule there is, or no reason.
  const std::vector<Finding>& mistakes() const noexcept { return mistakes_; }

 private:
  void read_line(const SourceLocations& locations, int line);
  bool check(const std::string& rule, const std::string& reason, const SourceLocation& location);

  std::set<std::string> everywhere_;                           // rules
  std::set<std::pair<std::string, SourceLocation>> at_lines_;  // column 0
  std::vector<Finding> mistakes_;
};

}  // namespace clora
