// Builds kernels for GPUs that are not here, by the program clang-14 and our own built-in functions
// (tools/clc/shim). Threads: one at a time.
#pragma once

#include <array>
#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tools/clc/kernel_file.hpp"
#include "tools/clc/target.hpp"
#include "tools/clc/work_folder.hpp"

namespace clora {

struct OfflineBuild {
  bool built = false;
  std::string error = {};     // the first one, where it is not built
  std::string assembly = {};  // PTX, with .reqntid, or AMD's
  std::map<std::string, std::array<std::size_t, 3>> required_groups =
      {};  // of NVIDIA's, where said
};

class OfflineCompiler {
 public:
  OfflineCompiler();  // Errors: not_found, naming the package, where clang-14 is not there.

  // options: as for clBuildProgram. source_lines: with .file and .loc. A text that does not compile
  // is no error. REQUIRES: target is not "device".
  OfflineBuild build(const KernelFile& file, const Target& target, const std::string& options,
                     bool source_lines) const;

 private:
  OfflineBuild build_ptx(std::vector<std::string> command, const Target& target) const;
  WorkFolder folder_;
};

// The words of options as a shell has them: "-D 'X=a b'" is {"-D", "X=a b"}.
std::vector<std::string> option_words(std::string_view options);

// What ptxas says of a PTX: `program -v`. out of CLORA_PTXAS, else PATH; empty: there is none.
std::string ptxas_program();
struct PtxasReport {
  bool built = false;
  std::string log;
};
PtxasReport run_ptxas(const std::string& program, const std::string& ptx, const Target& target,
                      const std::string& options);

// The first error of a compiler's messages, as one line.
std::string first_error(std::string_view messages);

}  // namespace clora
