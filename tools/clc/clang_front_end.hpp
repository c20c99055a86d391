// clang as the reader of OpenCL C: its messages about a text and the syntax tree of it. No device
// and no driver is needed.
#pragma once

#include <string>
#include <vector>

#include "tools/clc/source_locations.hpp"
#include "tools/clc/syntax_tree.hpp"

namespace clora {

struct ClangMessage {
  SourceLocation location;
  bool is_error = false;
  std::string text;    // "use of undeclared identifier 'n'"
  std::string option;  // of a warning: "-Wunused-variable"
};

struct ClangReading {
  std::string target;  // "spir64"
  std::vector<ClangMessage> messages;
  SyntaxNode tree;

  int errors() const;
};

// Reads `text`, includes resolved, with the options of clBuildProgram: as portable OpenCL C, else,
// for assembly and builtins of theirs, as code of x86-64 or of NVIDIA GPUs. Where none takes it,
// the reading with the fewest errors. Thread-safe.
// Errors: not_found without clang-14, naming the package; io; invalid_file.
ClangReading read_with_clang(const std::string& text, const std::string& options);

// A message of clang, "rope.cl:12:3: warning: unused variable 'n' [-Wunused-variable]"; false for a
// line that is none. Notes are none.
bool read_clang_message(const std::string& line, ClangMessage& message);

}  // namespace clora
