// What compilers say of a kernel file, in one form whichever compiler said it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tools/clc/kernel_file.hpp"

namespace clora {

struct Diagnostic {
  std::string file;  // of the kernel file or one that it includes
  int line = 0;
  int column = 0;
  std::string severity;  // "error", "warning" or "note"
  std::string text;

  bool operator==(const Diagnostic&) const = default;
};

// The locations and words in a compiler's log; in these forms, of clang and Intel's, pocl's:
//   FILE:LINE:COLUMN: SEVERITY: TEXT        SEVERITY: FILE:LINE:COLUMN: TEXT
// Each once, in order. What has no location (how many errors there were) is left out.
std::vector<Diagnostic> diagnostics_of(std::string_view log);

// "rms_norm.cl:12:3: error: text", and below it the line, with a mark under the column.
std::string readable(const Diagnostic& diagnostic, const KernelFile& file);

}  // namespace clora
