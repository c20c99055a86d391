// Builds kernels for GPUs that are not installed: with clang, clang-14 where it knows the
// processor, and clora's own built-in functions (tools/clc/compile/shim), or with Intel's offline
// compiler. Not thread-safe.
#pragma once

#include <array>
#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tools/clc/call/work_folder.hpp"
#include "tools/clc/compile/target.hpp"
#include "tools/clc/kernel_file/kernel_file.hpp"

namespace clora {

struct OfflineBuild {
  bool built = false;
  std::string error = {};     // the first error, if the build fails
  std::string assembly = {};  // PTX with .reqntid, AMD assembly, or Intel's binary
  std::string messages = {};  // of Intel's compiler
  std::map<std::string, std::array<std::size_t, 3>> required_groups = {};  // NVIDIA only, if stated
};

class OfflineCompiler {
 public:
  OfflineCompiler();  // Errors: not_found without clang-14, naming the package.

  // options: in the form of clBuildProgram. source_lines: emits .file and .loc. A text that does
  // not compile is not an error, nor is a missing compiler other than clang-14. REQUIRES: target is
  // not "device".
  OfflineBuild build(const KernelFile& file, const Target& target, const std::string& options,
                     bool source_lines) const;

 private:
  OfflineBuild build_intel(const KernelFile& file, const Target& target,
                           const std::string& options) const;
  OfflineBuild build_ptx(std::vector<std::string> command, const Target& target) const;
  WorkFolder folder_;
};

// Splits options as a shell does: "-D 'X=a b'" is {"-D", "X=a b"}.
std::vector<std::string> option_words(std::string_view options);

// The path of ptxas, from CLORA_PTXAS or PATH; empty if there is none.
std::string ptxas_program();
struct PtxasReport {
  bool built = false;
  std::string log;
};
PtxasReport run_ptxas(const std::string& program, const std::string& ptx, const Target& target,
                      const std::string& options);

// The first error in a compiler's output, as one line.
std::string first_error(std::string_view messages);

}  // namespace clora
