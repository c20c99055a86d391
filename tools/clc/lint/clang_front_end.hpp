// clang as the OpenCL C front end: the diagnostics of a source text and its syntax tree. Needs no
// device and no driver.
#pragma once

#include <string>
#include <vector>

#include "tools/clc/kernel_file/source_locations.hpp"
#include "tools/clc/lint/syntax_tree.hpp"

namespace clora {

struct ClangMessage {
  SourceLocation location;
  bool is_error = false;
  std::string text;    // "use of undeclared identifier 'n'"
  std::string option;  // the flag of a warning: "-Wunused-variable"
};

struct ClangReading {
  std::string target;  // "spir64"
  std::vector<ClangMessage> messages;
  SyntaxNode tree;

  int errors() const;
};

// Parses `text`, with includes resolved, under the options of clBuildProgram. Tries portable OpenCL
// C first, then the targets x86-64 and NVIDIA for their assembly and builtins. If no target
// compiles it, returns the reading with the fewest errors. Thread-safe.
// Errors: not_found without clang-14, naming the package; io; invalid_file.
ClangReading read_with_clang(const std::string& text, const std::string& options);

// Parses a diagnostic of clang, "rope.cl:12:3: warning: unused variable 'n' [-Wunused-variable]".
// Returns false for any other line, including notes.
bool read_clang_message(const std::string& line, ClangMessage& message);

}  // namespace clora
