// The diagnostics of a kernel file in one form for all compilers.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tools/clc/kernel_file/kernel_file.hpp"

namespace clora {

struct Diagnostic {
  std::string file;  // the kernel file or an included file
  int line = 0;
  int column = 0;
  std::string severity;  // "error", "warning" or "note"
  std::string text;

  bool operator==(const Diagnostic&) const = default;
};

// Parses a compiler's log. Recognised forms (clang and Intel; pocl):
//   FILE:LINE:COLUMN: SEVERITY: TEXT        SEVERITY: FILE:LINE:COLUMN: TEXT
// Returns each diagnostic once, in order. Lines without a location (error counts) are omitted.
std::vector<Diagnostic> diagnostics_of(std::string_view log);

// "rms_norm.cl:12:3: error: text", followed by the source line with a mark under the column.
std::string readable(const Diagnostic& diagnostic, const KernelFile& file);

}  // namespace clora
